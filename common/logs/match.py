"""Find one side's value among the other side's values: the same numbers, arranged otherwise.

Two people who write the same model name, shape and order what is inside it as they like: channels
last, heads joined, three projections in one, a mask for one sample and not a batch.
NumPy only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from twincheck.common.system.reasons import Kind

_NEAR = 1e-6  # of the largest value: how near two values are that are taken for the same
_PARTS = (2, 3, 4)  # into so many equal parts a value may be split on the other side
_MOST = 1 << 22  # elements of a value that is looked for
_MOST_AXES = 5

Arrange = Callable[[np.ndarray], np.ndarray]
_FILL = 1e3  # times the largest other value: what a mask puts in is as far below 0


@dataclass(frozen=True)
class Match:
    """A value found on the other side, and the arrangements that make both sides' arrays alike.

    keys           the other side's: several where it holds the value in parts
    own, other     arrangements of this side's array, and of the other side's (of its joined parts)
    how            the reason that says so; empty where they are alike as they are
    """

    keys: tuple[str, ...]
    own: Arrange
    other: Callable[[Sequence[np.ndarray]], np.ndarray]
    how: str


class Values:
    """One side's values of a kind, to look others up in; each is read once, for its fingerprint."""

    def __init__(self, log: Mapping[str, np.ndarray], keys: Iterable[str]):
        self._log = log
        self._by_size: dict[int, list[tuple[str, np.ndarray]]] = {}
        for key in keys:
            array = log[key]
            if array.dtype.kind in "fiub" and 1 < array.size <= _MOST:
                values = array[single(array)]
                self._by_size.setdefault(values.size, []).append((key, _fingerprint(values)))

    def find(self, array: np.ndarray, first: str = "") -> Match | None:
        """Find this value; None where it is not there, or is too plain to be told apart.

        first  the key to look at before all others
        """
        if array.dtype.kind not in "fiub" or not 1 < array.size <= _MOST:
            return None
        slices = single(array)
        values = array[slices]
        if values.size < 2 and array.size > 1 or not np.isfinite(_numbers(values)).all():
            return None
        return (
            self._whole(values, slices, first, array)
            or self._joined(values, slices)
            or self._part(values, slices)
        )

    def _whole(self, values: np.ndarray, slices, first: str, array: np.ndarray) -> Match | None:
        """The value as one of the other side's; `array` is it as it was, before its `slices`."""
        for key in self._candidates(values, first):
            other = self._log[key]
            others = single(other)
            arrange, how = _arrangement(other[others], values)
            if arrange is None:
                continue
            if array.size != other.size:
                how = Kind.FOUND_AND_REPEATED(how=how) if how else Kind.FOUND_REPEATED()
            elif array.shape != other.shape:
                how = how or Kind.FOUND_RESHAPED()
            return Match(
                (key,),
                lambda own, s=slices: own[s],
                lambda arrays, s=others, a=arrange: a(arrays[0][s]),
                how,
            )
        return None

    def _joined(self, values: np.ndarray, slices) -> Match | None:
        """The value as several of the other side's, one behind the other."""
        for axis, count in _ways_to_split(values.shape):
            found = []
            for part in np.split(values, count, axis):
                match = self._whole(part, ..., "", part)
                if match is None:
                    break
                found.append(match)
            else:
                keys = tuple(match.keys[0] for match in found)
                if len(set(keys)) < count:
                    continue
                return Match(
                    keys,
                    lambda own, s=slices: own[s],
                    lambda arrays, f=tuple(found), a=axis: np.concatenate(
                        [match.other([array]) for match, array in zip(f, arrays, strict=True)], a
                    ),
                    Kind.FOUND_JOINED(count=count),
                )
        return None

    def _part(self, values: np.ndarray, slices) -> Match | None:
        """The value as a part of one of the other side's."""
        for count in _PARTS:
            for key, _ in self._by_size.get(values.size * count, ()):
                other = self._log[key]
                for axis, parts in _ways_to_split(other.shape):
                    if parts != count:
                        continue
                    for number, part in enumerate(np.split(other, count, axis)):
                        if not _alike(_fingerprint(part), _fingerprint(values)):
                            continue
                        arrange, _ = _arrangement(part, values)
                        if arrange is None:
                            continue
                        return Match(
                            (key,),
                            lambda own, s=slices: own[s],
                            lambda arrays, c=count, x=axis, n=number, a=arrange: a(
                                np.split(arrays[0], c, x)[n]
                            ),
                            Kind.FOUND_AS_PART(number=number + 1, count=count),
                        )
        return None

    def _candidates(self, values: np.ndarray, first: str) -> Iterator[str]:
        """The keys of values that may be the same, the one of this name first."""
        print_ = _fingerprint(values)
        keys = [key for key, other in self._by_size.get(values.size, ()) if _alike(other, print_)]
        yield from sorted(keys, key=lambda key: key != first)


def same_elements(ref: np.ndarray, cand: np.ndarray) -> bool:
    """True where two arrays hold the same numbers, at other places."""
    if ref.shape != cand.shape or {ref.dtype.kind, cand.dtype.kind} - set("fiub"):
        return False
    if _near(_numbers(ref), _numbers(cand)):
        return False  # at the same places
    a, b = (np.sort(_numbers(array), axis=None) for array in (ref, cand))
    return _near(a, b)


@dataclass(frozen=True)
class Likeness:
    """The arrangements on the two sides of a value that may be off.

    own, other  arrangements of the reference's array and of the candidate's, which make them alike
    back        of the reference's array, which makes it one of the candidate's shape
    turned      whether their axes are in another order
    off         how far they are apart then, as a part of the reference's root mean square
    """

    own: Arrange
    other: Arrange
    back: Arrange
    turned: bool
    off: float

    @property
    def same(self) -> bool:
        """Return whether both arrays, once arranged, are the same numbers."""
        return self.off <= _NEAR


def likeness(ref: np.ndarray, cand: np.ndarray, most: float = 0.5) -> Likeness | None:
    """The order of axes in which the candidate is most like the reference; None where none is.

    What is the same for all along an axis counts once.  Values that are off by more than `most` of
    the reference's size tell nothing.
    """
    if {ref.dtype.kind, cand.dtype.kind} - set("fiub") or max(ref.ndim, cand.ndim) > _MOST_AXES:
        return None
    one, another = single(ref), single(cand)
    values, others = _numbers(ref[one]), _numbers(cand[another])
    if sorted(values.shape) != sorted(others.shape) or values.size < 2:
        return None
    whole = float(np.sqrt(np.square(values).mean()))
    best, size = None, most * whole
    for order in permutations(range(values.ndim)):
        if tuple(others.shape[axis] for axis in order) == values.shape:
            off = float(np.sqrt(np.square(values - others.transpose(order)).mean()))
            if off < size:
                best, size = order, off
    if best is None:
        return None
    alone = tuple(axis for axis, part in enumerate(another) if part == 0)

    def back(array: np.ndarray) -> np.ndarray:
        turned = array[one].transpose(np.argsort(best))
        return np.ascontiguousarray(np.broadcast_to(np.expand_dims(turned, alone), cand.shape))

    return Likeness(
        own=lambda array: array[one],
        other=lambda array: array[another].transpose(best),
        back=back,
        turned=best != tuple(range(values.ndim)) or one != another,
        off=size / whole,
    )


def is_constant(array: np.ndarray) -> bool:
    """Return whether an array is one number, or none."""
    flat = array.reshape(-1)
    return bool((flat == flat[:1]).all())


def single(array: np.ndarray) -> tuple:
    """Slices that leave one where all along an axis are the same, and no axis of length 1."""
    slices = []
    for axis, length in enumerate(array.shape):
        first = np.broadcast_to(array.take(range(min(1, length)), axis), array.shape)
        repeats = length and np.array_equal(array, first, equal_nan=array.dtype.kind == "f")
        slices.append(0 if length == 1 or repeats else slice(None))
    return tuple(slices)


def _numbers(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _fingerprint(array: np.ndarray) -> np.ndarray:
    """Four sums that do not depend on the order: of the values, sizes and squares, and the most."""
    values = _numbers(array)
    sizes = np.abs(values)
    return np.array([values.sum(), sizes.sum(), np.square(values).sum(), sizes.max(initial=0.0)])


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    limits = np.maximum(a, b)[[1, 1, 2, 3]]
    return bool((np.abs(a - b) <= 2 * _NEAR * np.abs(limits)).all())


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= _NEAR * np.abs(a).max(initial=0.0))


def _ways_to_split(shape: Sequence[int]) -> Iterator[tuple[int, int]]:
    for axis in reversed(range(len(shape))):
        for count in _PARTS:
            if shape[axis] % count == 0 and shape[axis] >= count:
                yield axis, count


def _arrangement(other: np.ndarray, values: np.ndarray) -> tuple[Arrange | None, str]:
    """Return how `other` becomes `values`, and the reason; None where no plain way does."""
    numbers, shape = _numbers(values), values.shape
    if other.shape == shape and _near(numbers, _numbers(other)):
        return (lambda array: array), ""
    if other.size != values.size or max(other.ndim, values.ndim) > _MOST_AXES:
        return None, ""
    if _near(numbers.reshape(-1), _numbers(other).reshape(-1)):
        return (lambda array: array.reshape(shape)), Kind.FOUND_RESHAPED()
    how = Kind.FOUND_TURNED()
    for order in permutations(range(other.ndim)):
        turned = _numbers(other).transpose(order)
        if _near(numbers.reshape(-1), turned.reshape(-1)):
            return (lambda a, order=order: a.transpose(order).reshape(shape)), how
    for order in permutations(range(values.ndim)):
        turned = numbers.transpose(order)
        if _near(turned.reshape(-1), _numbers(other).reshape(-1)):
            back = np.argsort(order)
            return (lambda a, s=turned.shape, back=back: a.reshape(s).transpose(back)), how
    return None, ""


def masks_alike(ref: np.ndarray, cand: np.ndarray) -> bool:
    """True for values that are the same but where both are far below 0, as what a mask puts in."""
    if ref.dtype.kind != "f" or ref.shape != cand.shape:
        return False
    higher = np.maximum(ref, cand)
    seen = higher > -_FILL  # NaN is neither that nor masked
    largest = max(1.0, float(np.abs(cand[seen]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        same = np.abs(ref[seen] - cand[seen]) <= 1e-9 * largest
    masked = higher[~seen] <= -_FILL * largest
    return bool(masked.size and masked.all() and same.all())
