"""What in torch can make a narrow float, by name; and its older ways to do so, upcast.

    torch.FloatTensor(3)    x.type(torch.FloatTensor)    @torch.jit.script

Paddle has no counterpart to these: tensor types, and functions that Python does not run.
"""

import functools
from typing import Union

import torch
from torch.nn import functional as F

from common.sides import upcast
from common.system.intercept import Handle, Intercept, as_handle, stand_in

# Of torch and of its tensors: all whose schema has a dtype, but for those that read the same bits
# as another type (view), make integers alone, or quantize.
ASKED = (
    "arange empty empty_like empty_permuted empty_strided eye from_file full full_like linspace "
    "logspace normal ones ones_like rand rand_like randint randint_like randn randn_like range "
    "scalar_tensor zeros zeros_like new_empty new_empty_strided new_full new_ones new_tensor "
    "new_zeros bartlett_window blackman_window hamming_window hann_window kaiser_window "
    "fft.fftfreq fft.rfftfreq sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor "
    "sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor to to_dense type cumprod cumprod_ "
    "cumsum cumsum_ log_softmax mean nanmean nansum native_norm norm prod softmax sum "
    "linalg.matrix_norm linalg.norm linalg.vector_norm special.log_softmax special.softmax "
    "_sparse_sum _sparse_softmax _sparse_log_softmax addmm baddbmm bmm mm set_default_dtype"
).split()
FROM_DATA = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack")
# A method's name -> what it casts to.
CALLED = {
    "float": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "cfloat": torch.complex64,
    "chalf": torch.complex32,
}
_TYPES = ("FloatTensor", "HalfTensor", "BFloat16Tensor")


class _Type:
    """An old tensor type that makes wide tensors while upcasting; it may stand in an annotation."""

    def __init__(self, own: type, wide: type):
        self.own, self.wide = own, wide
        self.__module__ = own.__module__

    @property
    def now(self) -> type:
        """The type that is meant now."""
        if upcast.wanted():
            upcast.note(f"made as {self.own.__name__}")
        return self.wide if upcast.wanted() else self.own

    def __call__(self, *arguments, **options):
        return self.now(*arguments, **options)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self.wide if upcast.wanted() else self.own)

    def __or__(self, other: object) -> object:
        return Union[self, other]  # noqa: UP007  (this is what `|` calls)

    def __ror__(self, other: object) -> object:
        return Union[other, self]  # noqa: UP007

    def __getattr__(self, name: str) -> object:
        return getattr(self.own, name)


def spellings() -> dict[object, object]:
    """Every way to write a narrow dtype -> the wide one, written alike."""
    found: dict[object, object] = {}
    found |= dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
    found |= dict.fromkeys((torch.complex64, torch.complex32), torch.complex128)
    for place in ("torch", "torch.cuda"):  # as x.type("torch.FloatTensor") takes them
        found |= {f"{place}.{name}": f"{place}.DoubleTensor" for name in _TYPES}
    return found


def own_ways(spelling: upcast.Spelling) -> tuple[dict[str, Handle], dict[str, Handle]]:
    """What handles operators with float32 constants, always (none) and put there while upcasting.

    Tensor types and scripted functions have something in their place from now on.
    """
    for owner in (torch, torch.cuda):
        for name in _TYPES:
            if hasattr(owner, name):
                stand_in(owner, name, _Type(getattr(owner, name), owner.DoubleTensor))
    for_good = dict.fromkeys(("Tensor.type", "set_default_tensor_type"), _with_own_types)
    Intercept(torch, {**for_good, "jit.script": _script}).put()
    swapped = {"nn.functional.hardsigmoid": _hardsigmoid, "nn.functional.celu": _celu}
    paths = ("digamma", "special.digamma", "Tensor.digamma")
    return {}, {**swapped, **dict.fromkeys(paths, _digamma)}


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


def _with_own_types(own, arguments, options):
    """It knows nothing of _Type."""
    arguments = [v.now if isinstance(v, _Type) else v for v in arguments]
    return own(*arguments, **{k: v.now if isinstance(v, _Type) else v for k, v in options.items()})


def _script(own, arguments, options):
    """Scripted functions run as plain Python while upcasting: no cast is seen in them otherwise.

    What they compute is the same.
    """
    _known_to_scripts()
    made = own(*arguments, **options)
    if len(arguments) != 1 or options or not isinstance(made, torch.jit.ScriptFunction):
        return made

    @functools.wraps(arguments[0])
    def instead(*inputs, **named):
        return (arguments[0] if upcast.wanted() else made)(*inputs, **named)

    # Another function that is scripted may call this one.
    torch.jit._state._set_jit_function_cache(instead, made)
    return instead


@functools.cache
def _known_to_scripts() -> None:
    """Tell the compiler of scripts what the replaced functions of torch are."""
    known = torch.jit._builtins._get_builtin_table()
    for owner in (torch, torch.linalg, torch.fft, torch.special):
        for instead in vars(owner).values():
            own = getattr(instead, "__wrapped__", None)
            if id(own) in known:
                known[id(instead)] = known[id(own)]
