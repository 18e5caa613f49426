"""Paddle as a side (side.py): what it calls things."""

import os
from functools import partial

import numpy as np
import paddle
import paddle.distributed.fleet.utils
from paddle import nn

from twincheck.common.sides import blank_in_paddle, half_in_paddle, quick_in_paddle, upcast
from twincheck.common.sides.side import Side
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.reasons import Kind
from twincheck.common.transplant.exact import Exact, lp_pool

_argsort = paddle.argsort  # as it is before choices.py's patch

# Operators with a Python float, and the division: asked at every sum of two tensors if they were
# replaced for good.
_ARITHMETIC = "add radd sub rsub mul rmul truediv rtruediv div rdiv pow rpow mod".split()
# That of a tensor of integers is narrow.
_OF_INTEGERS = (
    "acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh exp expm1 log log2 log10 log1p "
    "sqrt rsqrt reciprocal sigmoid logsigmoid erf erfinv digamma lgamma gammaln i0 i0e i1 i1e "
    "logit divide elementwise_pow pow tanh_shrink softplus silu swish gelu median nanmedian"
).split()
_OF_ANYTHING = ("one_hot",)


def _wide_dtypes() -> dict[object, object]:
    """Every way to write a narrow dtype -> the wide one, written alike."""
    found: dict[object, object] = {paddle.complex64: paddle.complex128}
    found |= dict.fromkeys((paddle.float32, paddle.float16, paddle.bfloat16), paddle.float64)
    names = {"float32": "float64", "float16": "float64", "complex64": "complex128"}
    for narrow, wide in names.items():
        found[narrow] = wide
        found[getattr(np, narrow)] = getattr(np, wide)
        found[np.dtype(narrow)] = np.dtype(wide)
    found |= dict.fromkeys(("bfloat16", "uint16"), "float64")  # bfloat16 is stored as uint16
    kinds = paddle.base.core.VarDesc.VarType  # of older versions
    return found | dict.fromkeys((kinds.FP32, kinds.FP16, kinds.BF16), kinds.FP64)


# ---- what a function that draws was given, for its numbers; None: it is left alone ---------------


def _nothing(*arguments, **options):
    return ()


def _gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    return x, temperature, hard, axis


def _rrelu(x, lower=1 / 8, upper=1 / 3, training=True, name=None):
    return (x, lower, upper) if training else None


def _first_two(_, one, other, *rest, **options):
    """Behind a shape or a tensor: the mean and the deviation, or the ends of a range."""
    return one, other


def _created(*given, **options):
    return given[2:4] if len(given) == 6 else given[4:6]


def _probability(x, p=0.5, name=None):
    return (p,)


def _weights(x, num_samples, replacement=False, **options):
    return (x,) if replacement or num_samples == 1 else None


# ---- numbers of a static graph, which keeps those of these operators in float32 ------------------


def _in_graph(whole, own, arguments, options):
    """The operator with its numbers as float64 tensors, where it becomes a part of a graph."""
    x = arguments[0]
    if isinstance(x, paddle.pir.Value) and x.dtype == paddle.float64:
        return whole(own, *arguments, **options)
    return own(*arguments, **options)


def _number(value):
    return paddle.to_tensor(value, "float64") if type(value) is float else value


def _scale(own, x, scale=1.0, bias=0.0, bias_after_scale=True, **rest):
    if bias and not bias_after_scale:
        x, bias = x + _number(bias), 0.0
    x = x if scale == 1.0 else x * _number(float(scale))
    return x + _number(float(bias)) if bias else x


def _clip(own, x, low, high, **rest):
    return own(x, _number(low), _number(high), **rest)


def _full_like(own, x, value, *rest, **more):
    return own(x, 0.0, *rest, **more) + _number(value)


_WHOLE = {"scale": _scale, "clip": _clip, "full_like": _full_like}


def _lp_pool(own, arguments, options):
    """By powers in float64: Paddle's own result, of 1d too, holds float32 values."""
    upcast.note(Kind.LP_POOL_NARROW())
    x, kernel, stride, padding, ceil_mode, *more = arguments
    kept = own(*arguments, **options)
    return lp_pool(kept, x, kernel, stride, padding, ceil_mode, more[1], more[-1])


class PaddleSide(Side):
    """Paddle."""

    NAME, VERSION, FILE = "paddle", paddle.__version__, paddle.__file__
    lib, CUDA, DATA = paddle, paddle.device.cuda, paddle.io
    PROCESSES_HERE = "PADDLE_LOCAL_SIZE"

    AXIS = "axis"
    MODULE, FUNCTION = nn.Layer, paddle.autograd.PyLayer
    LAYERS = ("paddle.nn", "paddle.compat.nn")
    CONTAINERS = (nn.Sequential, nn.LayerList, nn.LayerDict, nn.ParameterList)
    CONTAINERS += tuple(getattr(nn, n) for n in ("ParameterDict",) if hasattr(nn, n))  # newer
    RECURRENT, CELLS = nn.layer.rnn.RNNBase, (nn.layer.rnn.RNNCellBase,)
    PADDING_ROW, LOAD, COPIES_TO_LOAD = "_padding_idx", "set_state_dict", True

    BATCH_NORMS, OLDER_BATCH_NORMS = (
        (nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D),
        (nn.BatchNorm,),
    )
    BATCH_NORM = "_C_ops.batch_norm"
    MEAN, VARIANCE, BIASED_VARIANCE = "_mean", "_variance", True

    CHECKPOINT = "distributed.fleet.utils.recompute"
    REST_OF_ATTENTION = ("training", "backend", "scale", "enable_gqa", "name")
    AXIS_OF_HEADS, HEADS_MAY_SHARE_KEYS = 2, True

    # What reads every device of a model's.
    TAKE_DEVICE = (
        *("set_device", "device.set_device", "device._convert_to_place"),
        "base.framework._get_paddle_place",
    )
    # A class: Paddle asks what is one.
    _CPU = {"__new__": lambda kind, *arguments: paddle.CPUPlace()}
    CALLED_FOR_GPU = {"CUDAPlace": type("CUDAPlace", (), _CPU)}
    SEED = "seed"
    DRAW = {
        "_C_ops.uniform": ("between", _created),
        "_C_ops.uniform_random_batch_size_like": ("between", _created),
        **dict.fromkeys(("_C_ops.gaussian", "_C_ops.gaussian_inplace_"), ("scaled", _first_two)),
        "_C_ops.uniform_inplace_": ("between", _first_two),
        "_C_ops.exponential_": ("exponential", lambda x, rate, *rest, **more: (rate,)),
        "_C_ops.bernoulli": ("coins", lambda x, *rest, **more: (x,)),
        **dict.fromkeys(("bernoulli_", "Tensor.bernoulli_"), ("coins", _probability)),
        "_C_ops.multinomial": ("categories", _weights),
        "_C_ops.randint": ("integers", lambda low, high, *rest, **more: (low, high)),
        "_C_ops.randperm": ("permutation", _nothing),
    }
    DRAW_WRITTEN_OUT = {"gumbel_softmax": _gumbel_softmax, "rrelu": _rrelu}

    # Paddle's functions end in those of _C_ops, by whatever name a model has imported them.
    ASKED_FOR_DTYPE = (
        "_C_ops.arange _C_ops.range_v2 _C_ops.assign_value _C_ops.assign_value_ _C_ops.cast "
        "_C_ops.cast_ _C_ops.cummax _C_ops.cummin _C_ops.empty _C_ops.empty_like _C_ops.eye "
        "_C_ops.full _C_ops.full_ _C_ops.full_batch_size_like _C_ops.full_like "
        "_C_ops.full_with_tensor _C_ops.gaussian _C_ops.gaussian_inplace _C_ops.linspace "
        "_C_ops.logspace _C_ops.mean _C_ops.nansum _C_ops.prod _C_ops.randint _C_ops.randperm "
        "_C_ops.sequence_mask _C_ops.sparse_cast _C_ops.sparse_sum _C_ops.sum "
        "_C_ops.truncated_gaussian_random _C_ops.uniform _C_ops.uniform_random_batch_size_like "
        "Tensor.astype Tensor.to Tensor._to nn.Layer.astype nn.Layer._to_impl set_default_dtype "
        "framework.set_default_dtype base.layer_helper_base.LayerHelperBase.create_parameter"
    ).split()
    FROM_DATA = ("tensor.creation._to_tensor_non_static", "assign")
    CALLED_AFTER_DTYPE = {
        **dict.fromkeys(("float", "float32"), paddle.float32),
        **dict.fromkeys(("half", "float16"), paddle.float16),
        "bfloat16": paddle.bfloat16,
        **dict.fromkeys(("cfloat", "complex64"), paddle.complex64),
    }
    WIDE = _wide_dtypes()

    is_tensor, no_grad = staticmethod(paddle.is_tensor), staticmethod(paddle.no_grad)
    argmax, as_complex = staticmethod(paddle.argmax), staticmethod(paddle.as_complex)
    scale_, seed = staticmethod(paddle.Tensor.scale_), staticmethod(paddle.seed)
    set_default_dtype = staticmethod(paddle.set_default_dtype)
    generator_state = staticmethod(paddle.get_rng_state)
    set_generator_state = staticmethod(paddle.set_rng_state)

    def order_of(self, scores):
        try:
            return _argsort(scores, descending=True, stable=True)
        except TypeError:  # Paddle 2.6 keeps no order
            return self.beside(np.argsort(-scores.numpy(), axis=-1, kind="stable"), scores)

    def cast(self, value, dtype):
        return value.astype(dtype)

    def from_array(self, values):
        return paddle.to_tensor(values)

    def beside(self, values, value):
        return paddle.to_tensor(values, place=value.place)

    def ready(self, values, value):
        return contiguous(np.asarray(values, str(value.dtype).rpartition(".")[2]))

    def is_on_cpu(self, value):
        return value.place.is_cpu_place()

    def use_device(self, name):
        paddle.set_device(name)
        if name == "gpu":
            paddle.set_flags({"FLAGS_cudnn_deterministic": True})
        paddle.disable_static()

    def on_gpu(self, model):
        return model.to(device="gpu")

    def modules(self, model):
        return model.named_sublayers(include_self=True)

    def wants_gradient(self, value):
        return not value.stop_gradient

    def by_batch(self, module):
        return module.training and not module._use_global_stats

    def of_batch_norm(
        self,
        x,
        mean,
        variance,
        weight,
        bias,
        is_test,
        momentum,
        epsilon,
        layout,
        use_global,
        trainable,
    ):
        by_batch = not (use_global or is_test and not trainable)
        return x, mean, by_batch, momentum

    def entries(self, model):
        return model.state_dict().items()

    def ways_to_load(self, model):
        # It sets every parameter and buffer of the model: layers inside it have no part in that.
        return [type(model).set_state_dict]

    def want_gradient(self, value, wanted=True):
        value.stop_gradient = not wanted

    def forget_gradient(self, value):
        value.clear_gradient(False)  # before 3.3, Paddle takes no None for .grad

    def sgd(self, values, lr):
        return paddle.optimizer.SGD(lr, parameters=values)

    def adam(self, values, lr, betas):
        return paddle.optimizer.Adam(lr, *betas, parameters=values)

    def adamw(self, parameters, decayed, lr, betas, weight_decay):
        values = [value for _, value in parameters]
        names = {value.name for name, value in parameters if name in decayed}
        if values[:1] and values[0].dtype == paddle.float64:
            return _WholeDecay(lr, betas, values, weight_decay, names)
        rule = {"parameters": values, "weight_decay": weight_decay}
        rule["apply_decay_param_fun"] = names.__contains__
        return paddle.optimizer.AdamW(lr, *betas, **rule)

    def set_rate(self, rule, lr):
        rule.set_lr(lr)

    def moment(self, rule, parameter, kind):
        return rule._accumulators[kind].get(parameter.name)

    def remembered(self, rule, parameter):
        own, start = rule.state_dict(), f"{parameter.name}_"
        return {k[len(start) :]: v for k, v in own.items() if k.startswith(start)}

    def remind(self, rule, remembered):
        own = rule.state_dict()
        for parameter, kept in remembered:
            own |= {f"{parameter.name}_{kind}": value for kind, value in kept.items()}
        rule.set_state_dict(own)

    def join_processes(self):
        count = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
        if count == 1:
            return 0, 1
        # The launcher has said which device is this process's: gloo on CPU, nccl on a GPU.
        paddle.distributed.init_parallel_env()
        return paddle.distributed.get_rank(), count

    def random_state(self):
        return blank_in_paddle.generator()

    def dropout_of_values(
        self, x, p=0.5, axis=None, training=True, *_, mode="upscale_in_train", **options
    ):
        return x, p, training, axis, mode

    def dropout_of_channels(self, x, p=0.5, training=True, data_format="NC", name=None):
        return x, p, training, (0, data_format.index("C"))

    def alpha_dropout(self, x, p=0.5, training=True, *rest, **options):
        return x, p, training

    def narrow_by_itself(self, spelling):
        always = {f"_C_ops.{name}": spelling.of_integers for name in _OF_INTEGERS}
        always |= {f"_C_ops.{name}": spelling.result for name in _OF_ANYTHING}
        swapped = {f"Tensor.__{name}__": spelling.of_integers for name in _ARITHMETIC}
        swapped |= {f"_C_ops.{name}": partial(_in_graph, handle) for name, handle in _WHOLE.items()}
        return always, swapped | {"_C_ops.lp_pool2d": _lp_pool}

    def half_precision(self, dtype, device):
        return half_in_paddle.computing(dtype, device)

    def autocast(self, dtype, device):
        return paddle.amp.auto_cast(level="O1", dtype=dtype)

    def blanks(self):
        return blank_in_paddle.Blanks()

    def compute_quickly(self, wanted):
        quick_in_paddle.make_quick(wanted)

    def exact_operators(self, site, watched):
        return Exact(site, watched)

    def take_along(self, value, index, axis):
        return paddle.take_along_axis(value, index, axis=axis)


class _WholeDecay(paddle.optimizer.AdamW):
    """Its AdamW in float64, whose operator keeps the decay in float32: here it is written out."""

    def __init__(self, lr, betas, values, weight_decay, names):
        super().__init__(lr, *betas, parameters=values, weight_decay=0.0)
        self._whole, self._decayed = weight_decay, [v for v in values if v.name in names]

    def step(self):
        with paddle.no_grad():
            for value in (v for v in self._decayed if v.grad is not None):
                side.scale_(value, 1 - self.get_lr() * self._whole)
        super().step()


side = PaddleSide()
