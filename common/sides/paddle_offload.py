"""A framework's ways for offload.py: torch_offload.py and paddle_offload.py are twins."""

import paddle
from paddle import nn
from paddle.autograd import backward  # noqa: F401  (handed on)

from common.sides.offload import watched

enable_grad, zeros_like = paddle.enable_grad, paddle.zeros_like
follows_gradients = paddle.is_grad_enabled
nn.Layer.__getattr__ = watched(nn.Layer.__getattr__)


def entries(model):
    """(key, tensor itself) of a model's state dict."""
    return model.state_dict().items()  # twin: Paddle keeps them


def wants_gradient(value):
    """Whether a gradient is wanted for a tensor."""
    return not value.stop_gradient


def freeze(value):
    """Want none for it any more."""
    value.stop_gradient = True  # twin: the opposite flag


def forget_gradient(value):
    """Let the gradient of a parameter go."""
    value.clear_gradient(False)  # twin: an attribute here, a call there


def behind_forward(model, hook):
    """Call a hook behind each forward of a model."""
    model.register_forward_post_hook(hook)


def let_go(value):
    """Leave a parameter its shape and dtype, but no memory."""
    value._clear_data()  # twin: what has no memory
    # Its shape and dtype stay.  # twin: what has no memory


def fill(value, values):
    """Give a parameter the memory of another tensor."""
    values._share_buffer_to(value)  # twin: how


class Recomputed(paddle.autograd.PyLayer):
    """See offload.py's _Recomputation; the tensors are those of its inputs that want a gradient."""

    @staticmethod
    def forward(ctx, call, *tensors):
        ctx.call = call
        return call.first()

    @staticmethod
    def backward(ctx, *gradients):
        return ctx.call.again(gradients)  # twin: of tensors alone
