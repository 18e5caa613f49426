"""The relation of a wrong value of a port to the one that the reference has in its place.

Only what the numbers show is said.  NumPy only.
"""

import math
from collections.abc import Mapping

import numpy as np

from twincheck.common.line.values import (
    bare,
    is_mask,
    numbers_of,
    pattern,
    same_numbers,
)
from twincheck.common.system.reasons import Kind

_CLOSE = 1e-9  # of the size
_SAME = 1e-7  # of a number itself, where all are sorted
_FEW = 2  # numbers, of which each order is as good
_NEAR = 0.05  # that two values differ by so little of their size is no chance


def relation(port: np.ndarray, reference: np.ndarray) -> str:
    """Return a sentence on what a port's value is of the reference's; empty where none is seen.

    Both are of one size but for axes that repeat.
    """
    one, other = bare(port), bare(reference)
    if one.size != other.size or one.size < 2:
        return ""
    same_shape = one.shape == other.shape
    one, other = (one, other) if same_shape else (one.reshape(-1), other.reshape(-1))
    a, b = one.astype(np.float64), other.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return _in_some_rows(a, b)
    size = max(np.abs(a).max(), np.abs(b).max())
    if not size:
        return ""
    if is_mask(one) and is_mask(other):
        mine, theirs = (pattern(value).astype(np.float64) for value in (one, other))
        if (mine != theirs).all():
            return Kind.LINE_COMPLEMENT()
        if rows := _in_some_rows(mine, theirs) or _in_some_rows(mine, 1 - theirs):
            return rows
    scale = factor(a, b)
    if scale is not None:
        return Kind.LINE_OTHER_SIGN() if scale == -1 else Kind.LINE_SCALED(factor=_number(scale))
    offset = float((a - b).mean())
    if offset and np.abs(a - b - offset).max() <= _CLOSE * size:
        return Kind.LINE_MORE(offset=_number(offset))
    signs = np.abs(np.abs(a) - np.abs(b)).max() <= _CLOSE * size
    if signs:
        return Kind.LINE_SIGNS(count=int((np.sign(a) != np.sign(b)).sum()), size=a.size)
    for axis in range(a.ndim if same_shape else 0):
        for step in (1, -1):
            if _moved(a, b, axis, step) <= _CLOSE * size:
                return Kind.LINE_SHIFTED(axis=axis, step=step)
    each = numbers_of(a, _SAME)
    if each.size > _FEW and same_numbers(each, numbers_of(b, _SAME), _SAME):
        return Kind.LINE_OTHER_ORDER()
    if np.abs(a * a + b * b - 1).max() <= _CLOSE:
        return Kind.LINE_COSINE_FOR_SINE()
    if (a != 0).all() and np.abs(a * b - 1).max() <= _CLOSE:
        return Kind.LINE_RECIPROCAL()
    rounded = np.abs(a - np.round(b)).max() == 0 or np.abs(a - b.astype(np.float32)).max() == 0
    if rounded:
        return Kind.LINE_ROUNDED()
    rows = _in_some_rows(a, b)
    if rows:
        return rows
    if one.dtype.kind in "iu" and other.dtype.kind in "iu":
        return Kind.LINE_SOME_DIFFER(count=int((a != b).sum()), size=a.size)
    if np.sqrt(np.mean((a - b) ** 2)) <= _NEAR * np.sqrt(np.mean(b**2)):
        return Kind.LINE_NEAR(part=_number(float(np.abs(a - b).max() / size)))
    return ""


def factor(port: np.ndarray, reference: np.ndarray) -> float | None:
    """Return by what one value is the other one times; None where it is not, or by 1."""
    if port.shape != reference.shape:
        return None
    a, b = port.astype(np.float64), reference.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()) or not a.any() or not b.any():
        return None
    by = float((a * b).sum() / (b * b).sum())
    size = max(np.abs(a).max(), np.abs(b).max())
    is_so = abs(by - 1) > 1e-6 and np.abs(a - by * b).max() <= _CLOSE * size
    return by if by and is_so else None


def _moved(a: np.ndarray, b: np.ndarray, axis: int, step: int) -> float:
    """Return how far one is from the other moved along an axis, where both reach."""
    length = a.shape[axis]
    if length < 4:
        return math.inf
    mine = a.take(range(1, length) if step > 0 else range(length - 1), axis)
    theirs = b.take(range(length - 1) if step > 0 else range(1, length), axis)
    return float(np.abs(mine - theirs).max())


def _in_some_rows(a: np.ndarray, b: np.ndarray) -> str:
    """Say in which rows of one axis two values differ, where they are few; else nothing."""
    with np.errstate(invalid="ignore"):
        off = ~((a == b) | (np.abs(a - b) <= _CLOSE * np.nanmax(np.abs(b), initial=0.0)))
    if not off.any() or off.mean() > 0.5:
        return ""
    best = None
    for axis in range(a.ndim):
        rows = np.flatnonzero(off.any(tuple(i for i in range(a.ndim) if i != axis)))
        if len(rows) <= a.shape[axis] / 2 and (best is None or len(rows) < len(best[1])):
            best = axis, rows
    count = int(off.sum())
    if best is None:
        return Kind.LINE_SOME_DIFFER(count=count, size=a.size)
    axis, rows = best
    named = [str(row) for row in rows[:4]]
    return Kind.LINE_ROWS_DIFFER(count=count, size=a.size, axis=axis, rows=named)


def _number(value: float) -> str:
    return f"{value:.10g}"


def worst_number(port: np.ndarray, reference: np.ndarray) -> list[str]:
    """Say which number of two values differs the most; nothing of values of other shapes."""
    if port.shape != reference.shape or not port.size:
        return []
    mine, theirs = port.astype(np.float64), reference.astype(np.float64)
    apart = np.abs(mine - theirs)
    apart = np.where(np.isnan(apart), np.inf, apart)
    at = np.unravel_index(int(apart.argmax()), port.shape)
    told = {"at": str([int(i) for i in at]), "shape": str(list(port.shape))}
    both = {"paddle": f"{mine[at]:.6g}", "torch": f"{theirs[at]:.6g}"}
    return [Kind.LINE_WORST(**told, **both)]


def named_numbers(
    port: Mapping[str, object], reference: Mapping[str, object]
) -> list[tuple[str, object, object]]:
    """Return the names that both frames have for other numbers: name, the port's, the other's."""
    both = [name for name in port if name in reference]
    return [(n, port[n], reference[n]) for n in both if _differ(port[n], reference[n])]


def _differ(one: object, other: object) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return not math.isclose(one, other, rel_tol=1e-12)
    return one != other
