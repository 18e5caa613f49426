"""A model that asks for a GPU gets the CPU, where the check runs on one.

x.cuda()    torch.zeros(3, device="cuda")    paddle.set_device("gpu")    paddle.CUDAPlace(0)
"""

from types import ModuleType

from twincheck.common.system.intercept import Intercept

_SELF = ("Tensor.cuda", "nn.Module.cuda", "nn.Layer.cuda")
_NOTHING = ("cuda.set_device", "cuda.synchronize", "cuda.empty_cache")
# In torch, all that takes a device of a model's; in Paddle what reads every such argument.
_TAKE_DEVICE = {
    "torch": (
        "Tensor.to arange as_tensor asarray empty empty_like eye full full_like linspace load "
        "logspace normal ones ones_like rand rand_like randint randint_like randn randn_like "
        "randperm range scalar_tensor set_default_device tensor zeros zeros_like Tensor.new_empty "
        "Tensor.new_full Tensor.new_ones Tensor.new_tensor Tensor.new_zeros"
    ).split(),
    "paddle": (
        *("set_device", "device.set_device", "device._convert_to_place"),
        "base.framework._get_paddle_place",
    ),
}


def patch(side: ModuleType) -> None:
    """Let everything that asks for a GPU have the CPU, from now on."""
    handles = dict.fromkeys(_TAKE_DEVICE[side.NAME], _on_cpu)
    handles |= dict.fromkeys(_SELF, lambda own, arguments, options: arguments[0])
    if side.NAME == "torch":
        handles |= dict.fromkeys(_NOTHING, lambda own, arguments, options: None)
    else:
        cpu = {"__new__": lambda kind, *arguments: side.lib.CPUPlace()}
        side.lib.CUDAPlace = type("CUDAPlace", (), cpu)  # a class: Paddle asks what is one
    Intercept(side.lib, handles, held_by=("paddle",)).put()


def _on_cpu(own, arguments, options):
    asked = {name: _cpu_of(value) for name, value in options.items()}
    return own(*map(_cpu_of, arguments), **asked)


def _cpu_of(value):
    """The CPU in place of a GPU, as text or as torch's device; all else as it is."""
    named = isinstance(value, str) or type(value).__name__ == "device"
    return "cpu" if named and str(value).partition(":")[0] in ("cuda", "gpu") else value
