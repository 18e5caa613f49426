"""Which differences in teacher forcing start where they are seen, and which came around a module.

Modules are fed the reference's values, so that what one does wrong ends at its outputs.  The code
between them, the parent's, keeps its own: a residual stream that one line spoils stays spoilt, and
is seen again at the inputs of every module that it is added to.  NumPy only.
"""

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.verdict.tolerances import tolerance

_PARTS = 16  # of a difference, of each of which the sum is remembered


def sketch(ref64: np.ndarray | None, teacher_forced: np.ndarray | None) -> list[float] | None:
    """Return the candidate's error on the reference's values: 16 numbers that keep its direction.

    Each is the sum of a part of the differences, with signs that all tensors of one size share.  No
    number where that cannot be said; None for a value that a side alone has.
    """
    if ref64 is None or teacher_forced is None:
        return None
    if ref64.shape != teacher_forced.shape or ref64.dtype.kind not in "fiub" or ref64.size < 2:
        return []
    signs = np.random.default_rng(ref64.size).integers(0, 2, ref64.size) * 2.0 - 1.0
    with np.errstate(all="ignore"):
        off = (teacher_forced.astype(np.float64) - ref64).reshape(-1) * signs
        starts = np.linspace(0, off.size, min(off.size, _PARTS), endpoint=False).astype(int)
        parts = np.add.reduceat(off, starts)
    return parts.tolist() if np.isfinite(parts).all() else []


class Streams:
    """The errors that the code of each module was seen to make."""

    def __init__(self):
        self._seen: dict[tuple[str, str], list[list[float]]] = {}
        self._backward: set[tuple[str, str]] = set()

    def explains(self, key: Key, parent: str, drawn: list[float] | None) -> bool:
        """True where a difference is one that this module's code had before, but for a factor.

        drawn  its sketch; of a value that one side alone has nothing is known, and nothing explains
               it

        A gradient that comes around a module has been through the code in between, so that no
        factor is left to be seen: there one origin in a module's code stands for those after it.
        """
        code = (key.case, parent)
        if drawn is None:
            return False
        if key.is_gradient:
            known = code in self._backward
            self._backward.add(code)
            return known
        if not drawn:
            return False
        off = np.array(drawn)
        with np.errstate(all="ignore"):
            known = any(_is_multiple(off, np.array(one)) for one in self._seen.get(code, ()))
        if not known:
            self._seen.setdefault(code, []).append(drawn)
        return known


def _is_multiple(off: np.ndarray, former: np.ndarray) -> bool:
    if off.shape != former.shape:
        return False
    square = float(former @ former)
    size = float(off @ off)
    if not (0.0 < square < np.inf and 0.0 < size < np.inf):
        return False
    left = off - former * (float(off @ former) / square)
    return float(left @ left) <= tolerance("floor") * size
