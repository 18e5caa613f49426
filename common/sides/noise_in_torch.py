"""The noise that float32's rounding makes of a model's float64 values, measured: Monte Carlo.

`Moved` is a mode of torch's dispatcher.  Inside, every operator's floating operands and results are
moved by random relative amounts of one rounding, which is what float32 does to them; how far that
moves a tensor says how exact float32 can be there, whatever framework computes it.  Conditioning,
cancellation, depth, non-smooth points and Adam's whole steps are in it, and it is never 0 by luck.

Source: Monte Carlo arithmetic (Parker 1997; Denis, de Oliveira Castro and Petit 2016, Verificarlo;
Sohier et al., arXiv:1807.09655), here at the level of operators.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from twincheck.common.logs.noise import SEEDS, SIZES, distances
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import Sidecar, read_sidecar, seal, sidecar_path, write_sidecar
from twincheck.common.logs.writer import LogWriter
from twincheck.common.pair.task import Noise
from twincheck.common.system.run_kind import RunKind

# What they return was there before, or is exact: nothing is rounded.
EXACT = frozenset(
    """
    _conj _local_scalar_dense _to_copy _unsafe_view abs adaptive_max_pool2d
    adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward alias all amax
    amin aminmax any arange argmax argmin argsort as_strided bernoulli bernoulli_ bitwise_and
    bitwise_not bitwise_or broadcast_to bucketize cat ceil clamp clamp_max clamp_min clone complex
    conj_physical constant_pad_nd copy copy_ count_nonzero cummax cummin detach detach_ diagonal
    diagonal_backward embedding empty empty_like empty_strided eq expand eye fill fill_ flip floor
    floor_divide fmax fmin frac full full_like gather ge gt hardtanh hardtanh_ hardtanh_backward
    im2col imag index index_fill index_fill_ index_select isfinite isinf isnan kthvalue le lift
    lift_fresh linspace logical_and logical_not logical_or logical_xor lt masked_fill masked_fill_
    masked_scatter masked_select max max_pool2d_with_indices max_pool2d_with_indices_backward
    max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d max_unpool3d maximum
    median min minimum mode nan_to_num nanmedian narrow ne neg neg_ new_empty_strided new_full
    new_zeros nonzero normal_ one_hot ones ones_like permute pixel_shuffle pixel_unshuffle put rand
    randint randn random_ randperm real reflection_pad1d reflection_pad2d relu relu_ repeat
    replication_pad1d replication_pad2d reshape resize_ roll rot90 round scalar_tensor scatter
    scatter_ searchsorted select select_backward select_scatter set_ sgn sign slice slice_backward
    slice_scatter sort split split_with_sizes squeeze squeeze_ stack t t_ take threshold_backward
    topk transpose transpose_ tril tril_ triu triu_ trunc unbind unfold uniform_ unique_dim
    unsafe_chunk unsafe_split unsqueeze unsqueeze_ upsample_nearest1d upsample_nearest2d view
    view_as_complex view_as_real where zero_ zeros zeros_like
    """.split()
)


def _signed(number: int) -> int:
    """The lowest 64 bits as torch's integers have them."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


# Multipliers of a hash (Steele, Lea and Flood 2014, SplitMix64).
_ODD = [_signed(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)]
_SCATTERED = frozenset(
    "cumsum cumprod index_add index_add_ index_put index_put_ scatter_add scatter_add_ "
    "scatter_reduce _ctc_loss _ctc_loss_backward".split()
)
# What these names begin reduces its first tensor, or normalises it by what it reduces it to.
_REDUCING = tuple(
    "sum mean var std nansum linalg_vector_norm norm logsumexp "
    "native_layer_norm native_batch_norm native_group_norm cudnn_batch_norm _fused_rms_norm "
    "_softmax _log_softmax mse_loss avg_pool _adaptive_avg_pool".split()
)
# They add 1 to what nears -1, an erf or a tanh, or to its square: a result near 0 has the rounding
# of a 1 times this.
_OF_ONE = {
    "gelu": lambda x: x.abs(),
    "gelu_backward": lambda gradient, x: gradient.abs() * (1 + x.abs()),
}
# So many values at a time stay in the processor's cache: 2.6 times as fast (4 million, an EPYC).
BLOCK = 1 << 16
# Their running statistics are written to, whatever their schema says, and come fourth and fifth.
_WRITING = ("native_batch_norm", "cudnn_batch_norm")


class Moved(TorchDispatchMode):
    """Operators' float64 operands and results are moved by random amounts; others' are left alone.

    seed   of the amounts
    size   the largest relative amount of one rounding: 2^-24 is float32's
    """

    kind = "noise"

    def __init__(self, seed: int, size: float):
        super().__init__()
        self.size = size
        self.still = False  # what is computed now is no part of the model's run
        self._number = seed << 32  # of the operator

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        if self.still or name in EXACT:
            return function(*args, **kwargs)
        self._number += 1
        if not function._schema.is_mutable:
            kept = args[3:] if name in _WRITING else ()
            rounded = partial(self._value, size=self.size)
            args, kwargs = nested(rounded, args), nested(rounded, kwargs)
            args = (*args[: len(args) - len(kept)], *kept)
        found = function(*args, **kwargs)
        size = self.size * math.sqrt(terms(name, args, found))
        if function._schema.is_mutable:
            # What writes into a list, such as _foreach_mul_ on a GPU, returns nothing.
            nested(lambda value: self._written(value, size), args[0] if found is None else found)
            return found
        if name.startswith("_fft"):
            return nested(lambda value: self._normwise(value, size), found)
        if name in _OF_ONE and is_wide(found):
            return torch.addcmul(found, self._drawn(found, size), _OF_ONE[name](*args))
        return nested(lambda value: self._value(value, size), found)

    def _value(self, value, size: float):
        """The values, moved, but for whole numbers that float32 holds, such as those of a mask.

        Nothing rounds them; 1 - mask would be a rounding times the lowest float.
        """
        if not is_wide(value):
            return value
        if value.is_complex():
            return torch.view_as_complex(
                self._value(torch.view_as_real(value.resolve_conj()), size)
            )
        value = value.resolve_neg()
        if value.numel() <= BLOCK or not value.is_contiguous():
            return self._block(value, size)
        moved = torch.empty_like(value)
        blocks = (whole.view(-1).split(BLOCK) for whole in (value, moved))
        for block, into in zip(*blocks, strict=True):
            into.copy_(self._block(block, size))
        return moved

    def _block(self, value, size: float):
        drawn, whole = self._drawn(value, size), value.round() == value
        if whole.any():
            single = value.to(torch.float32)  # of which the lowest float64 is none: it overflows
            drawn.masked_fill_(whole & ((single == value) | single.isinf()), 0.0)
        return torch.addcmul(value, value, drawn)

    def _normwise(self, value, size: float):
        """Move what was transformed: each value's error is a part of all that it is summed from."""
        if not is_wide(value):
            return value
        parts = torch.view_as_real(value) if value.is_complex() else value
        parts = torch.addcmul(parts, self._drawn(parts, size), parts.square().mean().sqrt())
        return torch.view_as_complex(parts) if value.is_complex() else parts

    def _written(self, value, size: float):
        return value.copy_(self._value(value, size)) if is_wide(value) else value

    def _drawn(self, values, size: float):
        """Amounts from -size to size for float64 values: a hash of each, the seed and the operator.

        Equal values of one operator move alike, as they are rounded alike: a difference of a value
        with itself stays 0.
        """
        mixed = values.view(torch.int64) ^ _signed(self._number * _ODD[0])
        mixed *= _ODD[1]
        mixed ^= mixed >> 32
        mixed *= _ODD[2]
        return mixed.to(torch.float64).mul_(size * 2.0**-63)


class Rounded(TorchDispatchMode):
    """Operators are given Python's numbers rounded to float32, as Paddle keeps its attributes."""

    kind = "constants"
    still = False  # as `Moved` has it

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not self.still:
            args, kwargs = nested(self._rounded, args), nested(self._rounded, kwargs or {})
        return function(*args, **(kwargs or {}))

    @staticmethod
    def _rounded(value):
        return float(np.float32(value)) if type(value) is float else value


def nested(change: Callable, value):
    """Apply `change` to each value in tuples, lists and dicts; torch's own is far slower."""
    if isinstance(value, tuple | list):
        return type(value)(nested(change, one) for one in value)
    if isinstance(value, dict):
        return {name: nested(change, one) for name, one in value.items()}
    return change(value)


def is_wide(value: object) -> bool:
    """True for a dense tensor of values in float64."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return False
    return value.layout == torch.strided and value.dtype in (torch.float64, torch.complex128)


def terms(name: str, args: tuple, found: object) -> int:
    """Return how many terms an operator adds for each of its values: their roundings add up.

    Roundings are as often up as down, so that n of them move a sum as far as the root of n.
    """
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if "scaled_dot" in name:
        return args[0].shape[-1] + args[1].shape[-2]
    if name in _SCATTERED:
        return max(1, max(value.numel() for value in tensors) // 10)
    if name in ("mm", "bmm", "mv", "dot"):
        return tensors[0].shape[-1]
    if name in ("addmm", "baddbmm", "addmv", "addbmm"):
        return tensors[1].shape[-1]
    if name == "convolution":
        return math.prod(tensors[1].shape[1:])
    if name == "convolution_backward":
        weight = tensors[2].shape
        return max(
            math.prod(tensors[1].shape) // max(tensors[1].shape[1], 1), math.prod(weight[1:])
        )
    made = found if isinstance(found, (tuple, list)) else [found]
    sizes = [value.numel() for value in made if is_wide(value)]
    if name.startswith(_REDUCING) and tensors and sizes:
        return max(1, tensors[0].numel() // min(sizes))
    return 1


def measure(job, task: Noise, write: Callable) -> None:
    """Log how far moved operators bring each tensor of the reference's float64 run.

    The largest distance of all runs counts: what passes beside one run of each size passes beside
    more.  With the first goes a run with constants rounded to float32, for what Paddle keeps so.

    write   (name of the run, dtype, moved=) makes one more log of the job
    """
    files = job.files
    moved = files.log(job.stem, "torch", RunKind.MOVED)
    found: list[dict[str, np.ndarray]] = [{} for _ in SIZES]
    lost: dict[str, int] = {}
    with read_log(files.log(job.stem, "torch", RunKind.FLOAT64)) as plain:
        for largest, size, seeds in zip(found, SIZES, SEEDS, strict=True):
            for seed in range(1, seeds) if task.further else (0,):
                write(RunKind.MOVED, "float64", moved=Moved(seed, size))
                told = read_sidecar(moved)
                with read_log(moved) as log:
                    for key, off in distances(plain, log, told.batches):
                        largest[key] = np.fmax(largest.get(key, np.nan), off)
                        if not np.isfinite(log[key]).all() and np.isfinite(plain[key]).all():
                            lost[key] = lost.get(key, 0) + 1
    measured = {key: np.stack([largest[key] for largest in found]) for key in found[0]}
    passes = (f"{case}{setup}" for case in told.batches for setup in ("", *task.setups))
    runs = dict.fromkeys(passes, SEEDS[0] if task.further else 1)
    told = replace(told, sums={}, booleans=[], moved=runs, lost=lost)
    _join(files.log(job.stem, "torch", RunKind.NOISE), measured, told, np.fmax)
    if not task.further:
        write(RunKind.MOVED, "float64", moved=Rounded())
        with read_log(moved) as log:
            _join(files.log(job.stem, "torch", RunKind.ROUNDED), log, read_sidecar(moved))
    for path in (moved, sidecar_path(moved)):
        path.unlink()


def _join(
    path: Path, values: Mapping[str, np.ndarray], told: Sidecar, merge: Callable | None = None
) -> None:
    """Write a log of some passes, with what is there of others.

    merge   makes one array of a key's former and its new one, which is taken without it
    """
    former, of_former = {}, Sidecar()
    if path.is_file():
        of_former = read_sidecar(path)
        with read_log(path) as log:
            former = {key: log[key] for key in log if merge or key not in values}
    with LogWriter(path) as writer:
        for key in {**former, **dict.fromkeys(values)}:
            pair = [log[key] for log in (former, values) if key in log]
            writer.add(key, merge(*pair) if len(pair) == 2 else pair[0])
    both = replace(
        told,
        sums=of_former.sums | told.sums,
        booleans=sorted({*of_former.booleans, *told.booleans}),
        batches=of_former.batches | told.batches,
        moved=told.moved | {p: max(n, told.moved.get(p, 0)) for p, n in of_former.moved.items()},
        lost=dict(Counter(of_former.lost) + Counter(told.lost)),
        log_sha256=writer.sha256,
    )
    write_sidecar(path, replace(both, seal=seal(both)))
