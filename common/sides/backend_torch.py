"""torch as a side (side.py): what it calls things."""

import os
import sys
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from twincheck.common.sides import blank_in_torch
from twincheck.common.sides.session import current
from twincheck.common.sides.side import Side
from twincheck.common.system.half import HALF
from twincheck.common.system.intercept import Intercept, as_handle
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import tree_leaves

# As PYTORCH_JIT=0 does: what is scripted runs as plain Python, since nothing can be seen in it, no
# draw given and no cast upcast otherwise.  What it computes is the same.
torch.jit._state.disable()
# Which functions take a default device, torch looks up once, when it has one: before any of them
# has an instrument before it, or what they make would stay on the CPU.
with torch.device("cpu"):
    torch.empty(0)

_argsort = torch.argsort  # as it is before choices.py's patch
_from_numpy = torch.from_numpy  # as it is before upcast.py's patch
_GPU = "cuda"
_OLD_KINDS = ("FloatTensor", "HalfTensor", "BFloat16Tensor")  # of tensors


def _backward(own, given, options):
    with torch.device(_GPU):
        return own(*given, **options)


_IN_BACKWARD = Intercept(torch, {"autograd._engine_run_backward": _backward})


@contextmanager
def without_compiler():
    """Let torch's optimizers find its compiler imported, to which they say what not to compile.

    To import it takes as long as torch itself (2.0 s), and nothing of an optimizer is compiled.
    """
    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return
    there = sys.modules[name] = ModuleType(name)
    there.disable = lambda function, *_, **__: function
    there.graph_break = lambda: None
    try:
        yield
    finally:
        del sys.modules[name]


def _rule(kind, *arguments, **options):
    with without_compiler():
        rule = kind(*arguments, **options)
    rule.step = without_compiler()(rule.step)
    return rule


class _Watch(TorchFunctionMode):
    """Notes each call of a function of torch that is given floats."""

    def __init__(self, device: str):
        super().__init__()
        self.device = device

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        name = getattr(function, "__name__", "").strip("_")
        if name not in ("get", "set", "detach", "clone"):
            given = [list(arguments), options]
            leaves = (value for _, value in tree_leaves(given, torch.is_tensor))
            floats = [str(v.dtype).replace("torch.", "") for v in leaves if v.is_floating_point()]
            if floats and isinstance(options.get("dtype"), torch.dtype):  # it is cast to that first
                floats = [str(options["dtype"]).replace("torch.", "")]
            if floats:
                result = function(*arguments, **options)
                lowered = torch.is_autocast_enabled(self.device) and torch.is_tensor(result)
                if lowered and result.is_floating_point():  # what it was given was cast to that
                    floats = [str(result.dtype).replace("torch.", "")]
                current().note_computed(name, floats)
                return result
        return function(*arguments, **options)


@contextmanager
def _half_precision(dtype, device):
    """Watch inside what torch computes in half precision, by its own kernels, on a CPU too."""
    if dtype not in HALF:
        yield ""
        return
    with _Watch(_GPU if device == "gpu" else device):
        yield Kind.KERNELS_OF_TORCH()


# ---- what a function that draws was given, for its numbers; None: it is left alone ---------------


def _nothing(*arguments, **options):
    return ()


def _probability(input, p=None, **options):
    return (input if p is None else p,)


def _gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    return logits, tau, hard, dim


def _rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    return None if inplace or not training else (input, lower, upper)


def _low_high(self, low=0.0, high=1.0, **options):
    return options.get("from", low), options.get("to", high)


def _weights(input, num_samples, replacement=False, **options):
    return (input,) if replacement or num_samples == 1 else None


def _range(*given, low=0, high=None, **options):
    ends = [value for value in given if isinstance(value, int)]
    ends += [high] if high is not None else []
    return (low, *ends)[-2:] if ends else None


# ---- operators that are float32 in part, whatever they are given: these are not ------------------


@as_handle
def _hardsigmoid(own, input, inplace=False):
    """Without the float32 1/6 of torch's own gradient."""
    if inplace or input.dtype != torch.float64:
        return own(input, inplace)
    return F.hardtanh(input + 3.0, 0.0, 6.0) / 6.0


@as_handle
def _celu(own, input, alpha=1.0, inplace=False):
    """Without the float32 alpha of torch's own gradient."""
    if inplace or input.dtype != torch.float64:
        return own(input, alpha, inplace)
    below = torch.where(input > 0.0, torch.zeros_like(input), input)
    return torch.where(input > 0.0, input, alpha * torch.expm1(below / alpha))


@as_handle
def _digamma(own, input, **out):
    return own(input, **out) if out or input.dtype != torch.float64 else _Digamma.apply(input)


class _Digamma(torch.autograd.Function):
    """With Hurwitz's zeta function, which is exact, in place of torch's own gradient."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return torch.special.psi(x)  # its other name, of which nothing stands in the way

    @staticmethod
    def backward(context, gradient):
        return gradient * torch.special.zeta(2, *context.saved_tensors)


class TorchSide(Side):
    """torch."""

    NAME, VERSION, FILE = "torch", torch.__version__, torch.__file__
    lib, CUDA, DATA = torch, torch.cuda, torch.utils.data
    PROCESSES_HERE = "LOCAL_WORLD_SIZE"

    AXIS = "dim"
    MODULE, FUNCTION = nn.Module, torch.autograd.Function
    LAYERS = ("torch.nn",)
    CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
    RECURRENT, CELLS = nn.RNNBase, ()
    PADDING_ROW, LOAD, COPIES_TO_LOAD = "padding_idx", "load_state_dict", False

    BATCH_NORMS, OLDER_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), ()
    BATCH_NORM = "batch_norm"
    MEAN, VARIANCE, BIASED_VARIANCE = "running_mean", "running_var", False

    CHECKPOINT = "utils.checkpoint.checkpoint"
    REST_OF_ATTENTION, AXIS_OF_HEADS, HEADS_MAY_SHARE_KEYS = (), 1, False

    TAKE_DEVICE = (
        "Tensor.to arange as_tensor asarray empty empty_like eye full full_like linspace load "
        "logspace normal ones ones_like rand rand_like randint randint_like randn randn_like "
        "randperm range scalar_tensor set_default_device tensor zeros zeros_like Tensor.new_empty "
        "Tensor.new_full Tensor.new_ones Tensor.new_tensor Tensor.new_zeros"
    ).split()
    CALLED_FOR_GPU = dict.fromkeys(
        ("cuda.set_device", "cuda.synchronize", "cuda.empty_cache"),
        lambda own, arguments, options: None,
    )
    SEED = "manual_seed"
    DRAW = {
        **dict.fromkeys(("rand", "rand_like"), ("uniform", _nothing)),
        **dict.fromkeys(("randn", "randn_like"), ("normal", _nothing)),
        "normal": ("scaled", lambda mean=0.0, std=1.0, *rest, **more: (mean, std)),
        "Tensor.normal_": ("scaled", lambda x, mean=0.0, std=1.0, **more: (mean, std)),
        "Tensor.uniform_": ("between", _low_high),
        "Tensor.exponential_": ("exponential", lambda x, lambd=1.0, **more: (lambd,)),
        **dict.fromkeys(("bernoulli", "Tensor.bernoulli"), ("coins", _probability)),
        "Tensor.bernoulli_": ("coins", lambda x, p=0.5, **more: (p,)),
        **dict.fromkeys(("multinomial", "Tensor.multinomial"), ("categories", _weights)),
        **dict.fromkeys(("randint", "randint_like"), ("integers", _range)),
        "randperm": ("permutation", _nothing),
    }
    DRAW_WRITTEN_OUT = {"gumbel_softmax": _gumbel_softmax, "rrelu": _rrelu}

    # All whose schema has a dtype, but for those that read the same bits as another type (view),
    # make integers alone, or quantize.
    ASKED_FOR_DTYPE = (
        "arange empty empty_like empty_permuted empty_strided eye from_file full full_like "
        "linspace logspace normal ones ones_like rand rand_like randint randint_like randn "
        "randn_like range scalar_tensor zeros zeros_like new_empty new_empty_strided new_full "
        "new_ones new_tensor new_zeros bartlett_window blackman_window hamming_window "
        "hann_window kaiser_window fft.fftfreq fft.rfftfreq sparse_bsc_tensor sparse_bsr_tensor "
        "sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor to "
        "to_dense type cumprod cumprod_ cumsum cumsum_ log_softmax mean nanmean nansum "
        "native_norm norm prod softmax sum linalg.matrix_norm linalg.norm linalg.vector_norm "
        "special.log_softmax special.softmax _sparse_sum _sparse_softmax _sparse_log_softmax "
        "addmm baddbmm bmm mm set_default_dtype"
    ).split()
    FROM_DATA = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack")
    CALLED_AFTER_DTYPE = {
        "float": torch.float32,
        "half": torch.float16,
        "bfloat16": torch.bfloat16,
        "cfloat": torch.complex64,
        "chalf": torch.complex32,
    }
    WIDE = {
        **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
        **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
        # As x.type("torch.FloatTensor") takes them.
        **{f"torch.{kind}": "torch.DoubleTensor" for kind in _OLD_KINDS},
        **{f"torch.cuda.{kind}": "torch.cuda.DoubleTensor" for kind in _OLD_KINDS},
    }

    is_tensor, no_grad = staticmethod(torch.is_tensor), staticmethod(torch.no_grad)
    argmax, as_complex = staticmethod(torch.argmax), staticmethod(torch.view_as_complex)
    scale_, seed = staticmethod(torch.Tensor.mul_), staticmethod(torch.manual_seed)

    def order_of(self, scores):
        return _argsort(scores, descending=True, stable=True)

    def cast(self, value, dtype):
        return value.to(dtype)

    def from_array(self, values):
        return torch.as_tensor(values, device=str(torch.get_default_device()))

    def beside(self, values, value):
        return torch.as_tensor(values, device=value.device)

    def ready(self, values, value):
        return _from_numpy(contiguous(np.asarray(values)))

    def is_on_cpu(self, value):
        return value.device.type == "cpu"

    def use_device(self, name):
        if name == "gpu":
            torch.set_default_device(_GPU)
            torch.use_deterministic_algorithms(True, warn_only=True)
            # A default device holds in its thread, and not in what a mode calls, as a backward
            # pass: what models and hooks make there would be on the CPU.
            torch.autograd.set_multithreading_enabled(False)
            _IN_BACKWARD.put()
        elif torch.get_default_device().type != "cpu":
            # Only then: on CPU torch needs no default device, which would slow every call.  Nor is
            # it set to None, of which torch 2.8 cannot be asked.
            torch.set_default_device("cpu")
            _IN_BACKWARD.take_away()
        torch.backends.mha.set_fastpath_enabled(False)

    def on_gpu(self, model):
        return model.to(_GPU)

    def set_default_dtype(self, name):
        torch.set_default_dtype(getattr(torch, name))

    def modules(self, model):
        return model.named_modules()

    def wants_gradient(self, value):
        return value.requires_grad

    def by_batch(self, module):
        return module.training

    def of_batch_norm(
        self, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
    ):
        return input, running_mean, training, 1.0 - momentum

    def entries(self, model):
        return model.state_dict(keep_vars=True).items()

    def ways_to_load(self, model):
        yield type(model).load_state_dict
        for module in model.modules():
            yield type(module)._load_from_state_dict
            yield from (h.hook for h in module._load_state_dict_pre_hooks.values())

    def want_gradient(self, value, wanted=True):
        value.requires_grad = wanted

    def forget_gradient(self, value):
        value.grad = None

    def sgd(self, values, lr):
        return _rule(torch.optim.SGD, values, lr=lr)

    def adam(self, values, lr, betas):
        return _rule(torch.optim.Adam, values, lr=lr, betas=betas)

    def adamw(self, parameters, decayed, lr, betas, weight_decay):
        undecayed = [value for name, value in parameters if name not in decayed]
        values = [value for name, value in parameters if name in decayed]
        groups = [{"params": values}, {"params": undecayed, "weight_decay": 0.0}]
        return _rule(torch.optim.AdamW, groups, lr, betas, 1e-8, weight_decay)

    def set_rate(self, rule, lr):
        for group in rule.param_groups:
            group["lr"] = lr

    def moment(self, rule, parameter, kind):
        own = {"moment1": "exp_avg", "moment2": "exp_avg_sq"}[kind]
        return rule.state.get(parameter, {}).get(own)

    def remembered(self, rule, parameter):
        return dict(rule.state.get(parameter, {}))

    def remind(self, rule, remembered):
        rule.state.update(remembered)

    def join_processes(self):
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return 0, 1
        # Where there are fewer GPUs than processes, all compute on the CPU (Side.set_up).
        on_gpu = int(os.environ.get(self.PROCESSES_HERE, count)) <= torch.cuda.device_count()
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
        return torch.distributed.get_rank(), count

    def generator_state(self):
        used = torch.cuda.is_initialized()
        return torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if used else ())

    def set_generator_state(self, state):
        torch.set_rng_state(state[0])
        torch.cuda.set_rng_state_all(state[1:])

    def random_state(self):
        return b"".join(state.numpy().tobytes() for state in self.generator_state())

    def dropout_of_values(self, input, p=0.5, training=True, inplace=False):
        return input, p, training

    def dropout_of_channels(self, input, p=0.5, training=True, inplace=False):
        return input, p, training, (0, 1)

    def alpha_dropout(self, input, p=0.5, training=False, *rest, **options):
        return input, p, training

    def narrow_by_itself(self, spelling):
        handles = {"nn.functional.hardsigmoid": _hardsigmoid, "nn.functional.celu": _celu}
        handles |= dict.fromkeys(("digamma", "special.digamma", "Tensor.digamma"), _digamma)
        handles |= dict.fromkeys(_OLD_KINDS, torch.DoubleTensor)  # for isinstance too
        cuda = (f"cuda.{kind}" for kind in _OLD_KINDS)
        return {}, handles | dict.fromkeys(cuda, torch.cuda.DoubleTensor)

    def half_precision(self, dtype, device):
        return _half_precision(dtype, device)

    def autocast(self, dtype, device):
        return torch.autocast(_GPU if device == "gpu" else device, dtype=getattr(torch, dtype))

    def blanks(self):
        return blank_in_torch.Blanks()

    def compute_quickly(self, wanted):
        pass

    def exact_operators(self, site, watched):
        return None

    def take_along(self, value, index, axis):
        return torch.take_along_dim(value, index, dim=axis)


side = TorchSide()
