"""What in torch can make a narrow float, by name; and its older ways to do so, upcast.

    torch.FloatTensor(3)    x.type(torch.FloatTensor)

Paddle has no counterpart to these tensor types.
"""

import torch
from torch.nn import functional as F

from twincheck.common.sides import upcast
from twincheck.common.system.intercept import Handle, Intercept, as_handle, stand_in

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


class _WideTypes:
    """While upcasting, the old tensor types are the wide one, for isinstance too."""

    def __init__(self):
        self._put_back = []

    def put(self) -> None:
        """Put it in their place."""
        for owner in (torch, torch.cuda):
            for name in _TYPES:
                if hasattr(owner, name):
                    self._put_back.append(stand_in(owner, name, owner.DoubleTensor))

    def take_away(self) -> None:
        """Put back what was there."""
        while self._put_back:
            self._put_back.pop()()


def spellings() -> dict[object, object]:
    """Every way to write a narrow dtype -> the wide one, written alike."""
    found: dict[object, object] = {}
    found |= dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
    found |= dict.fromkeys((torch.complex64, torch.complex32), torch.complex128)
    for place in ("torch", "torch.cuda"):  # as x.type("torch.FloatTensor") takes them
        found |= {f"{place}.{name}": f"{place}.DoubleTensor" for name in _TYPES}
    return found


def own_ways(spelling: upcast.Spelling) -> tuple[dict[str, Handle], list]:
    """What handles operators always (nothing), and what is put before some while upcasting."""
    handles = {"nn.functional.hardsigmoid": _hardsigmoid, "nn.functional.celu": _celu}
    handles |= dict.fromkeys(("digamma", "special.digamma", "Tensor.digamma"), _digamma)
    return {}, [Intercept(torch, handles), _WideTypes()]


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
