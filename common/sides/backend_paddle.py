"""What Paddle calls things, name by name as in backend_torch.py."""

import os

import numpy as np
import paddle
import paddle.distributed.fleet.utils
from paddle import nn

from twincheck.common.system.matrices import contiguous

lib, AXIS = paddle, "axis"
MODULE, FUNCTION = nn.Layer, paddle.autograd.PyLayer
LAYERS = ("paddle.nn", "paddle.compat.nn")
CONTAINERS = (nn.Sequential, nn.LayerList, nn.LayerDict, nn.ParameterList)
CONTAINERS += tuple(getattr(nn, n) for n in ("ParameterDict",) if hasattr(nn, n))  # newer
BATCH_NORMS = (nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D)
MEAN, VARIANCE, BIASED_VARIANCE = "_mean", "_variance", True
OLDER_BATCH_NORMS, BATCH_NORM = (nn.BatchNorm,), "_C_ops.batch_norm"
PADDING_ROW, LOAD = "_padding_idx", "set_state_dict"
CHECKPOINT = "distributed.fleet.utils.recompute"
REST_OF_ATTENTION = ("training", "backend", "scale", "enable_gqa", "name")
AXIS_OF_HEADS, HEADS_MAY_SHARE_KEYS = 2, True
COPIES_TO_LOAD = True
OF_NO_TENSOR = ()
RECURRENT, CELLS = nn.layer.rnn.RNNBase, nn.layer.rnn.RNNCellBase
NAME, VERSION, FILE = "paddle", paddle.__version__, paddle.__file__
argmax, _argsort = paddle.argmax, paddle.argsort
is_tensor, no_grad = paddle.is_tensor, paddle.no_grad
generator_state, set_generator_state = paddle.get_rng_state, paddle.set_rng_state
seed, CUDA, PROCESSES_HERE = paddle.seed, paddle.device.cuda, "PADDLE_LOCAL_SIZE"
scale_, set_default_dtype = paddle.Tensor.scale_, paddle.set_default_dtype
as_complex = paddle.as_complex
DATA = paddle.io


def order_of(scores):
    try:
        return _argsort(scores, descending=True, stable=True)
    except TypeError:  # Paddle 2.6 keeps no order
        return beside(np.argsort(-scores.numpy(), axis=-1, kind="stable"), scores)


def cast(value, dtype):
    return value.astype(dtype)


def from_array(values):
    return paddle.to_tensor(values)


def beside(values, value):
    return paddle.to_tensor(values, place=value.place)


def ready(values, value):
    return contiguous(np.asarray(values, str(value.dtype).rpartition(".")[2]))


def is_on_cpu(value):
    return value.place.is_cpu_place()


def use_device(name):
    paddle.set_device(name)
    if name == "gpu":
        paddle.set_flags({"FLAGS_cudnn_deterministic": True})
    paddle.disable_static()


def on_gpu(model):
    return model.to(device="gpu")


def modules(model):
    return model.named_sublayers(include_self=True)


def wants_gradient(value):
    return not value.stop_gradient


def by_batch(module):
    return module.training and not module._use_global_stats


def channels_axis(module):
    return 1 if module._data_format[1] == "C" else -1


def of_batch_norm(
    x, mean, variance, weight, bias, is_test, momentum, epsilon, layout, use_global, trainable
):
    by_batch = not (use_global or is_test and not trainable)
    return x, mean, weight, bias, by_batch, momentum, epsilon, 1 if layout[1] == "C" else -1


def as_batch_norm(value):
    return value, *[None] * 5


def entries(model):
    return model.state_dict().items()


def ways_to_load(model):
    # It sets every parameter and buffer of the model: layers inside it have no part in that.
    return [type(model).set_state_dict]


def want_gradient(value, wanted=True):
    value.stop_gradient = not wanted


def forget_gradient(value):
    value.clear_gradient(False)  # before 3.3, Paddle takes no None for .grad


def let_go(value):
    value._clear_data()


def fill(value, values):
    values._share_buffer_to(value)


def sgd(values, lr):
    return paddle.optimizer.SGD(lr, parameters=values)


def adam(values, lr, betas):
    return paddle.optimizer.Adam(lr, *betas, parameters=values)


def adamw(parameters, decayed, lr, betas, weight_decay):
    values = [value for _, value in parameters]
    names = {value.name for name, value in parameters if name in decayed}
    if values[:1] and values[0].dtype == paddle.float64:
        return _WholeDecay(lr, betas, values, weight_decay, names)
    rule = {"parameters": values, "weight_decay": weight_decay}
    rule["apply_decay_param_fun"] = names.__contains__
    return paddle.optimizer.AdamW(lr, *betas, **rule)


class _WholeDecay(paddle.optimizer.AdamW):
    """Its AdamW in float64, whose operator keeps the decay in float32: here it is written out."""

    def __init__(self, lr, betas, values, weight_decay, names):
        super().__init__(lr, *betas, parameters=values, weight_decay=0.0)
        self._whole, self._decayed = weight_decay, [v for v in values if v.name in names]

    def step(self):
        with paddle.no_grad():
            for value in (v for v in self._decayed if v.grad is not None):
                scale_(value, 1 - self.get_lr() * self._whole)
        super().step()


def set_rate(rule, lr):
    rule.set_lr(lr)


def moment(rule, parameter, kind):
    return rule._accumulators[kind].get(parameter.name)


def remembered(rule, parameter):
    own, start = rule.state_dict(), f"{parameter.name}_"
    return {k[len(start) :]: v for k, v in own.items() if k.startswith(start)}


def remind(rule, remembered):
    own = rule.state_dict()
    for parameter, kept in remembered:
        own |= {f"{parameter.name}_{kind}": value for kind, value in kept.items()}
    rule.set_state_dict(own)


def join_processes():
    count = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    if count == 1:
        return 0, 1
    # The launcher has said which device is this process's: gloo on CPU, nccl on a GPU.
    paddle.distributed.init_parallel_env()
    return paddle.distributed.get_rank(), count


def random_state():
    words = str(paddle.get_rng_state()[0]).split()
    return " ".join(word for word in words if not word.startswith("0x")).encode()


def dropout_of_values(x, p=0.5, axis=None, training=True, *_, mode="upscale_in_train", **options):
    return x, p, training, axis, mode


def dropout_of_channels(x, p=0.5, training=True, data_format="NC", name=None):
    return x, p, training, (0, data_format.index("C"))


def alpha_dropout(x, p=0.5, training=True, *rest, **options):
    return x, p, training


def take_along(value, index, axis):
    return paddle.take_along_axis(value, index, axis=axis)
