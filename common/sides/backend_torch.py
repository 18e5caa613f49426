"""What torch calls things, for the instruments that both sides share (bind.py).

backend_paddle.py has the same names for Paddle, and says nothing that is said here.
"""

import os
import sys
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import torch
import torch.utils.checkpoint
from torch import nn

from twincheck.common.system.intercept import Intercept
from twincheck.common.system.matrices import contiguous

# As PYTORCH_JIT=0 does: what is scripted runs as plain Python, since nothing can be seen in it, no
# draw given and no cast upcast otherwise.  What it computes is the same.
torch.jit._state.disable()
# Which functions take a default device, torch looks up once, when it has one: before any of them
# has an instrument before it, or what they make would stay on the CPU.
with torch.device("cpu"):
    torch.empty(0)

lib, AXIS = torch, "dim"
MODULE, FUNCTION = nn.Module, torch.autograd.Function
LAYERS = ("torch.nn",)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
RECURRENT = nn.RNNBase
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MEAN, VARIANCE, BIASED_VARIANCE = "running_mean", "running_var", False  # n / (n - 1)
# The operator that all of them call, which moves the statistics.
OLDER_BATCH_NORMS, BATCH_NORM = (), "batch_norm"
PADDING_ROW = "padding_idx"  # where an Embedding keeps it
LOAD = "load_state_dict"  # a model's method
CHECKPOINT = "utils.checkpoint.checkpoint"
# What attention may be given by position behind its first six arguments, and what else it does.
REST_OF_ATTENTION, AXIS_OF_HEADS, HEADS_MAY_SHARE_KEYS = (), 1, False
COPIES_TO_LOAD = False  # loading a state makes a copy of it first
OF_NO_TENSOR = (None,)  # what a FUNCTION's backward gives for one input that is no tensor
CELLS = ()  # these give their output and their states
NAME, VERSION, FILE = "torch", torch.__version__, torch.__file__
argmax, _argsort = torch.argmax, torch.argsort  # as they are before choices.py's patch
is_tensor, no_grad = torch.is_tensor, torch.no_grad
seed, CUDA, PROCESSES_HERE = torch.manual_seed, torch.cuda, "LOCAL_WORLD_SIZE"
scale_ = torch.Tensor.mul_  # in place
as_complex = torch.view_as_complex
DATA = torch.utils.data  # where its DataLoader is
_from_numpy = torch.from_numpy  # as it is before upcast.py's patch
_GPU = "cuda"


def order_of(scores):
    """Indices that sort along the last axis, largest first; equal scores keep their order."""
    return _argsort(scores, descending=True, stable=True)


def cast(value, dtype):
    """A tensor with another dtype."""
    return value.to(dtype)


def from_array(values):
    """A tensor of an array's values on the default device, which torch itself may not know."""
    return torch.as_tensor(values, device=str(torch.get_default_device()))


def beside(values, value):
    """A tensor of an array's values where another tensor is."""
    return torch.as_tensor(values, device=value.device)


def ready(values, value):
    """An array as what a model can copy into a tensor of its own: a tensor; in Paddle an array."""
    return _from_numpy(contiguous(np.asarray(values)))


def is_on_cpu(value):
    """Whether NumPy can see a tensor where it is."""
    return value.device.type == "cpu"


def use_device(name):
    """Compute on `cpu` or `gpu`, in one way whether gradients are asked for or not."""
    if name == "gpu":
        torch.set_default_device(_GPU)
        torch.use_deterministic_algorithms(True, warn_only=True)
        # A default device holds in its thread, and not in what a mode calls, as a backward pass:
        # what models and hooks make there would be on the CPU.
        torch.autograd.set_multithreading_enabled(False)
        _IN_BACKWARD.put()
    elif torch.get_default_device().type != "cpu":
        # Only then: on CPU torch needs no default device, which would slow every call.  Nor is it
        # set to None, of which torch 2.8 cannot be asked.
        torch.set_default_device("cpu")
        _IN_BACKWARD.take_away()
    torch.backends.mha.set_fastpath_enabled(False)


def _backward(own, given, options):
    with torch.device(_GPU):
        return own(*given, **options)


_IN_BACKWARD = Intercept(torch, {"autograd._engine_run_backward": _backward})


def on_gpu(model):
    """The model, all of whose weights are there."""
    return model.to(_GPU)


def set_default_dtype(name):
    """Make floats in it from now on."""
    torch.set_default_dtype(getattr(torch, name))


def modules(model):
    """(name, module) of a model, whose name is empty, and of all that is in it."""
    return model.named_modules()


def wants_gradient(value):
    """Whether a gradient is wanted for a tensor."""
    return value.requires_grad


def by_batch(module):
    """True where a BatchNorm takes each batch's statistics: in training, unless it is frozen."""
    return module.training


def channels_axis(module):
    """The axis of a BatchNorm's channels."""
    return 1


def of_batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
):
    """Value, running mean, weight, bias, whether it takes the batch's statistics, which part of

    the running ones it keeps, epsilon, and the axis of channels: the operator's arguments.
    """
    return input, running_mean, weight, bias, training, 1.0 - momentum, eps, 1


def as_batch_norm(value):
    """What the operator gives where its result is this."""
    return value


def entries(model):
    """(key, tensor itself) of a model's state dict."""
    return model.state_dict(keep_vars=True).items()


def ways_to_load(model):
    """All that has a part in that, of the framework or of a model's own."""
    yield type(model).load_state_dict
    for module in model.modules():
        yield type(module)._load_from_state_dict
        yield from (h.hook for h in module._load_state_dict_pre_hooks.values())


def want_gradient(value, wanted=True):
    """Ask for the gradient of a tensor, or no more."""
    value.requires_grad = wanted


def forget_gradient(value):
    """From now on a parameter has no gradient."""
    value.grad = None


def let_go(value):
    """Leave a parameter its shape and dtype, but no memory."""
    value.data = torch.full([], float("nan"), dtype=value.dtype).expand(value.shape)


def fill(value, values):
    """Give a parameter the memory of another tensor."""
    value.data = values


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


def sgd(values, lr):
    """The framework's own plain SGD."""
    return _rule(torch.optim.SGD, values, lr=lr)


def adam(values, lr, betas):
    """Its Adam."""
    return _rule(torch.optim.Adam, values, lr=lr, betas=betas)


def adamw(parameters, decayed, lr, betas, weight_decay):
    """Its AdamW over (name, parameter); those whose names are among `decayed` decay."""
    undecayed = [value for name, value in parameters if name not in decayed]
    values = [value for name, value in parameters if name in decayed]
    groups = [{"params": values}, {"params": undecayed, "weight_decay": 0.0}]
    return _rule(torch.optim.AdamW, groups, lr, betas, 1e-8, weight_decay)


def set_rate(rule, lr):
    """Give one of these another learning rate."""
    for group in rule.param_groups:
        group["lr"] = lr


def moment(rule, parameter, kind):
    """Its moment1 or moment2 of a parameter; None where it has none."""
    own = {"moment1": "exp_avg", "moment2": "exp_avg_sq"}[kind]
    return rule.state.get(parameter, {}).get(own)


def remembered(rule, parameter):
    """Kind -> tensor of all that it keeps for a parameter."""
    return dict(rule.state.get(parameter, {}))


def remind(rule, remembered):
    """Give it back what it kept: (parameter, kind -> tensor) pairs."""
    rule.state.update(remembered)


def join_processes():
    """This process's rank among those that torchrun started together, and how many they are."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return 0, 1
    # Where there are fewer GPUs than processes, all compute on the CPU (tensors.set_up).
    on_gpu = int(os.environ.get(PROCESSES_HERE, count)) <= torch.cuda.device_count()
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    return torch.distributed.get_rank(), count


def generator_state():
    """The states of the framework's own generators: the CPU's, then each GPU's in use."""
    used = torch.cuda.is_initialized()
    return torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if used else ())


def set_generator_state(state):
    """Put them back."""
    torch.set_rng_state(state[0])
    torch.cuda.set_rng_state_all(state[1:])


def random_state():
    """The same, as bytes."""
    return b"".join(state.numpy().tobytes() for state in generator_state())


def dropout_of_values(input, p=0.5, training=True, inplace=False):
    """F.dropout's arguments -> value, p, training, and the axes along which masks differ."""
    return input, p, training


def dropout_of_channels(input, p=0.5, training=True, inplace=False):
    """The same of those that drop whole channels."""
    return input, p, training, (0, 1)


def alpha_dropout(input, p=0.5, training=False, *rest, **options):
    """The same of those for SELU."""
    return input, p, training


def take_along(value, index, axis):
    """Values at indices along an axis."""
    return torch.take_along_dim(value, index, dim=axis)
