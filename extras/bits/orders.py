"""In which order a sum was added: both frameworks' results, reproduced by trying orders.

NumPy only.  A float32 sum depends on its order, and a product that is added in one rounding (a
fused multiply-add) differs from one that is rounded first.  What an operator adds up is known, so
its sums are computed once more in each order that libraries use, for some hundred elements, till
one gives the very bits: of torch, and of Paddle.  Two orders that are found are the whole
difference; where none is, the operator is another kernel, or its order is not among these.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from twincheck.extras.bits import Kind

MOST = 512  # elements of a result that are computed again
LONGEST = 1 << 14  # terms of a sum
EDGE = 20  # so many elements one of all the ways gives by chance once in thousands of samples
LANES = (2, 4, 8, 16, 32, 64)
BLOCKS = (8, 16, 32, 48, 64, 96, 128, 192, 240, 256, 320, 384, 512)
CASCADE = 16  # terms of a chain of torch's sums, before a further level takes them


@dataclass
class Sums:
    """Sums over terms a b, or a alone: a, b (E, K), and what is added to each: start (E)."""

    a: np.ndarray
    b: np.ndarray | None = None
    start: np.ndarray | None = None
    divided: float = 1.0  # what each sum is divided by in the end

    def take(self, rows: np.ndarray) -> "Sums":
        """Some of the sums."""
        b, start = (None if v is None else v[rows] for v in (self.b, self.start))
        return Sums(self.a[rows], b, start, self.divided)


@dataclass(frozen=True)
class Found:
    """How one framework's result came about: an order in words, and its share of equal bits."""

    said: str
    share: float  # of the elements; 1: all


def find(ways: Iterator[tuple[str, np.ndarray]], results: Sequence[np.ndarray]) -> list[Found]:
    """Of each result (E,) the first way that gives all its bits, else the nearest.

    Where all that the nearest leaves is given by one other way, both are named: products of
    matrices are made in tiles, and those at an edge otherwise than the rest.
    """
    tried: list[list[tuple[str, np.ndarray]]] = [[] for _ in results]
    best = [Found("", 0.0)] * len(results)
    with np.errstate(all="ignore"):
        for said, values in ways:
            for i, result in enumerate(results):
                same = _same(values, result)
                tried[i].append((said, same))
                if same.mean() > best[i].share:
                    best[i] = Found(said, float(same.mean()))
            if all(each.share == 1.0 for each in best):
                break
    return [_tiled(*each) for each in zip(best, tried, strict=True)]


def _tiled(best: Found, tried: Sequence[tuple[str, np.ndarray]]) -> Found:
    """Two ways that give all elements between them, where that is no chance; else the best one."""
    left = next((~same for said, same in tried if said == best.said), None)
    if best.share == 1.0 or left is None or left.sum() < EDGE:
        return best
    other = next((said for said, same in tried if same[left].all()), None)
    if other is None:
        return best
    return Found(Kind.TILED(most=best.said, share=best.share, other=other), 1.0)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two results are equal; a zero's sign does not count, nor which NaN it is."""
    return (a == b) | (np.isnan(a) & np.isnan(b))


def orders(sums: Sums) -> Iterator[tuple[str, np.ndarray]]:
    """(words, sums (E,)) of every order, the commonest first; of sums of too many terms none."""
    if sums.a.shape[1] > LONGEST:
        return
    fusings = (True, False) if sums.b is not None else (False,)
    begins = (Kind.BIAS_LAST, Kind.BIAS_FIRST) if sums.start is not None else (str,)
    for fused in fusings:
        for name, add in _WAYS:
            for begin in begins:
                start = sums.start if begin is Kind.BIAS_FIRST else None
                total = add(_Terms(sums, fused), start)
                if total is None:
                    continue
                if begin is Kind.BIAS_LAST:
                    total = total + sums.start
                words = [name, Kind.FUSED() if fused else "", begin()]
                for word, values in _ended(total, sums.divided):
                    yield Kind.ORDER(words=[*words, word]), values


def _ended(total: np.ndarray, divided: float) -> list[tuple[str, np.ndarray]]:
    if divided == 1.0:
        return [("", total)]
    by = np.float32(divided)
    times = total * (np.float32(1.0) / by)
    return [("", total / by), (Kind.BY_RECIPROCAL(), times)]


class _Terms:
    """The terms of sums, which are added to what is there, a place of all sums at a time."""

    def __init__(self, sums: Sums, fused: bool):
        self.sums, self.fused = sums, fused
        self.count = sums.a.shape[1]

    def onto(self, total: np.ndarray, places) -> np.ndarray:
        """The totals (E,) or (E, L) with the terms at a place, or at L places, added."""
        a = self.sums.a[:, places]
        if self.sums.b is None:
            return total + a
        b = self.sums.b[:, places]
        if not self.fused:
            return total + a * b
        # A product of two float32 is exact in float64.
        return (a.astype(np.float64) * b + total).astype(np.float32)

    def zeros(self, lanes: int = 0) -> np.ndarray:
        """Totals to begin with."""
        return np.zeros((len(self.sums.a), lanes) if lanes else len(self.sums.a), np.float32)


def _in_turn(terms: _Terms, start, places=None) -> np.ndarray:
    total = terms.zeros() if start is None else start.copy()
    for place in range(terms.count) if places is None else places:
        total = terms.onto(total, place)
    return total


def _backwards(terms: _Terms, start) -> np.ndarray:
    return _in_turn(terms, start, range(terms.count - 1, -1, -1))


def _in_lanes(lanes: int, joined: Callable):
    """Term k belongs to lane k mod L; the lanes are joined, then what is left is added."""

    def add(terms: _Terms, start) -> np.ndarray | None:
        whole = terms.count // lanes * lanes
        if not whole:
            return None
        total = terms.zeros(lanes)
        for begin in range(0, whole, lanes):
            total = terms.onto(total, slice(begin, begin + lanes))
        total = joined(total)
        return _rest(terms, total if start is None else start + total, whole)

    return add


def _one_by_one(lanes: np.ndarray) -> np.ndarray:
    total = lanes[:, 0]
    for lane in range(1, lanes.shape[1]):
        total = total + lanes[:, lane]
    return total


def _halves(lanes: np.ndarray) -> np.ndarray:
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def _neighbours(lanes: np.ndarray) -> np.ndarray:
    while lanes.shape[1] > 1:
        lanes = lanes[:, 0::2] + lanes[:, 1::2]
    return lanes[:, 0]


def _registers(width: int, joined: Callable):
    """Lanes of several registers: these are added one after another, then a register's lanes."""

    def join(lanes: np.ndarray) -> np.ndarray:
        total = lanes[:, :width]
        for begin in range(width, lanes.shape[1], width):
            total = total + lanes[:, begin : begin + width]
        return joined(total)

    return join


def _in_blocks(size: int):
    """Each block's sum by itself, in turn, added to those before."""

    def add(terms: _Terms, start) -> np.ndarray | None:
        if terms.count <= size:
            return None
        total = terms.zeros() if start is None else start.copy()
        for begin in range(0, terms.count, size):
            places = range(begin, min(begin + size, terms.count))
            total = total + _in_turn(terms, None, places)
        return total

    return add


def _pairwise(terms: _Terms, start) -> np.ndarray:
    """Halves, down to eight terms, which are added in turn."""

    def of(begin: int, end: int) -> np.ndarray:
        if end - begin <= 8:
            return _in_turn(terms, None, range(begin, end))
        middle = begin + (end - begin) // 2
        return of(begin, middle) + of(middle, end)

    total = of(0, terms.count)
    return total if start is None else start + total


def _chain(terms: _Terms, lanes: int, rounds: int) -> np.ndarray:
    """torch's cascade: of `lanes` lanes so many rounds, of which further levels take 16 or more."""
    step = max(CASCADE, 1 << (math.ceil(math.log2(max(1, rounds))) // 4))
    levels = [terms.zeros(lanes) for _ in range(4)]
    for number in range(rounds):
        levels[0] = terms.onto(levels[0], slice(number * lanes, (number + 1) * lanes))
        for level in range(1, 4):
            if (number + 1) % step**level or number + 1 > rounds // step * step:
                break
            levels[level] = levels[level] + levels[level - 1]
            levels[level - 1] = terms.zeros(lanes)
    total = levels[0]
    for level in levels[1:]:
        total = total + level
    return total


def _cascade(width: int):
    """torch's sums along the last axis, and of columns at an edge: four registers of chains.

    What fills no register comes first.
    """

    def add(terms: _Terms, start) -> np.ndarray | None:
        lanes, whole = 4 * width, terms.count // width * width
        if not whole or terms.sums.b is not None:
            return None
        rounds = whole // lanes
        total = _chain(terms, lanes, rounds)
        registers = [total[:, begin : begin + width] for begin in range(0, lanes, width)]
        for begin in range(rounds * lanes, whole, width):
            registers[0] = terms.onto(registers[0], slice(begin, begin + width))
        lanes_of = registers[0]
        for register in registers[1:]:
            lanes_of = lanes_of + register
        total = _in_turn(terms, start, range(whole, terms.count))
        for lane in range(width):
            total = total + lanes_of[:, lane]
        return total

    return add


def _columns(terms: _Terms, start) -> np.ndarray | None:
    """torch's sums along another axis: one chain."""
    if terms.sums.b is not None:
        return None
    total = _chain(terms, 1, terms.count)[:, 0]
    return total if start is None else start + total


def _rest(terms: _Terms, total: np.ndarray, begin: int) -> np.ndarray:
    for place in range(begin, terms.count):
        total = terms.onto(total, place)
    return total


_JOINS = (
    (Kind.JOINED_IN_TURN(), _one_by_one),
    (Kind.JOINED_BY_HALVES(), _halves),
    (Kind.JOINED_BY_NEIGHBOURS(), _neighbours),
)
_WAYS: list[tuple[str, Callable]] = [(Kind.IN_TURN(), _in_turn)]
_WAYS += [
    (Kind.IN_LANES(lanes=lanes, joined=said), _in_lanes(lanes, join))
    for lanes in LANES
    for said, join in _JOINS
]
_WAYS += [
    (
        Kind.IN_REGISTERS(count=n, lanes=width, joined=said),
        _in_lanes(n * width, _registers(width, join)),
    )
    for n in (2, 4, 8)
    for width in (4, 8, 16)
    for said, join in _JOINS
]
_WAYS += [(Kind.IN_BLOCKS(size=size), _in_blocks(size)) for size in BLOCKS]
_WAYS += [(Kind.PAIRWISE(), _pairwise), (Kind.BACKWARDS(), _backwards)]
_WAYS += [(Kind.IN_CASCADE_OF_REGISTERS(lanes=width), _cascade(width)) for width in (8, 16)]
_WAYS += [(Kind.IN_CASCADE_OF_SUMS(), _cascade(1)), (Kind.IN_CASCADE(), _columns)]


# ---- layer normalization ------------------------------------------------------------------------


def norms(x: np.ndarray, weight, bias, epsilon: float) -> Iterator[tuple[str, np.ndarray]]:
    """(words, results (E, K)) of each way in which libraries normalize the rows of x (E, K)."""
    count, eps = float(x.shape[1]), np.float32(epsilon)
    for lanes in (8, 16, 4):
        if x.shape[1] >= lanes:
            said = Kind.WELFORD(lanes=lanes)
            yield from _normalized(said, x, *_welford(x, lanes), weight, bias, eps)
    for name, add in _WAYS:
        total = add(_Terms(Sums(x), False), None)
        if total is None:
            continue
        mean = total / np.float32(count)
        apart = x - mean[:, None]
        for fused, word in ((False, ""), (True, Kind.FUSED())):
            both = [add(_Terms(Sums(v, v), fused), None) for v in (apart, x)]
            if both[0] is None:
                continue
            spread, squares = (each / np.float32(count) for each in both)
            order, affine = Kind.ORDER(words=[name, word]), (weight, bias, eps)
            said = Kind.VARIANCE_AFTER_MEAN(order=order)
            yield from _normalized(said, x, mean, spread, *affine)
            said = Kind.VARIANCE_BY_SQUARES(order=order)
            yield from _normalized(said, x, mean, squares - mean * mean, *affine)


def _normalized(said: str, x, mean, variance, weight, bias, eps):
    mean, root = mean[:, None], np.sqrt(variance + eps)[:, None]
    for word, by in (
        (Kind.TIMES_RECIPROCAL(), (x - mean) * (np.float32(1.0) / root)),
        (Kind.BY_DEVIATION(), (x - mean) / root),
    ):
        by_word = Kind.NORMALIZED(steps=[said, word])
        if weight is None:
            yield by_word, by if bias is None else by + bias
            continue
        yield by_word, by * weight if bias is None else by * weight + bias
        if bias is not None:
            steps = [said, word, Kind.AFFINE_FUSED()]
            yield Kind.NORMALIZED(steps=steps), _fused(by, weight, bias)


def _fused(a, b, c) -> np.ndarray:
    """a b + c in one rounding."""
    return (np.asarray(a, np.float64) * b + c).astype(np.float32)


def _welford(x: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of rows as torch has them: lanes, chunks of 16 terms, joined by levels."""
    rounds = x.shape[1] // lanes
    chunks = -(-rounds // CASCADE)
    depth = max(1, math.ceil(math.log2(chunks)))
    empty = np.zeros((len(x), lanes), np.float32)
    levels = [(0, empty, empty)] * depth
    for chunk in range(chunks):
        mean, square = empty, empty
        places = range(chunk * CASCADE, min((chunk + 1) * CASCADE, rounds))
        for number, place in enumerate(places, 1):
            values = x[:, place * lanes : (place + 1) * lanes]
            apart = values - mean
            mean = _fused(apart, np.float32(1.0) / np.float32(number), mean)
            square = _fused(apart, values - mean, square)
        levels[0] = _joined((len(places), mean, square), levels[0])
        done = chunk + 1
        for level in range(1, depth):
            if done % 2:
                break
            levels[level] = _joined(levels[level - 1], levels[level])
            levels[level - 1] = (0, empty, empty)
            done //= 2
    for level in range(1, depth):
        levels[0] = _joined(levels[level], levels[0])
    total = 0, np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
    for place in range(rounds * lanes, x.shape[1]):  # what fills no lanes comes first
        apart = x[:, place] - total[1]
        mean = total[1] + apart / np.float32(total[0] + 1)
        total = total[0] + 1, mean, total[2] + apart * (x[:, place] - mean)
    for lane in range(lanes):
        own = rounds, levels[0][1][:, lane], levels[0][2][:, lane]
        total = _joined(own, total)
    return total[1], total[2] / np.float32(x.shape[1])


def _joined(added, to):
    """Count, mean and sum of squares of two parts together, as torch's AddMoments has them."""
    count = added[0] + to[0]
    share = np.float32(added[0]) / np.float32(count)
    apart = added[1] - to[1]
    squares = apart * apart * share
    if apart.ndim == 2:  # of lanes
        return count, to[1] + apart * share, _fused(squares, to[0], to[2] + added[2])
    return count, _fused(apart, share, to[1]), to[2] + _fused(squares, to[0], added[2])


# ---- what an operator adds up -------------------------------------------------------------------


def ways_of(operator: str, named: Mapping, inputs: Sequence[np.ndarray]) -> Callable | None:
    """How each element of an operator's result may come about: rows -> (words, their values).

    rows    places of the flat result, as `sampled` gives them for groups of `grouped`
    named   the arguments by name: {"tensor": i} for the i-th of `inputs`, else their value
    None for an operator in whose place nothing is computed here.
    """

    def tensor(name):
        given = named.get(name)
        return inputs[given["tensor"]] if isinstance(given, Mapping) else None

    if operator == "layer_norm":
        return _of_norm(tensor, named)
    if operator == "conv":
        return _of_convolution(tensor("x"), tensor("weight"), tensor("bias"), named)
    if operator == "einsum":
        operands = [inputs[each["tensor"]] for each in named["operands"]]
        sums = _of_einsum(named["equation"], *operands) if len(operands) == 2 else None
    else:
        sums = _sums_of(operator, named, tensor)
    return sums and (lambda rows: orders(sums(rows)))


def grouped(operator: str, named: Mapping) -> int:
    """How many elements of the result come about together."""
    return _normalized_size(named) if operator == "layer_norm" else 1


def _normalized_size(named: Mapping) -> int:
    shape = named.get("normalized_shape", 1)
    return math.prod(shape) if isinstance(shape, list | tuple) else int(shape)


def _of_norm(tensor, named):
    size = _normalized_size(named)
    x, weight, bias = tensor("x").reshape(-1, size), tensor("weight"), tensor("bias")
    weight, bias = (v if v is None else v.ravel() for v in (weight, bias))

    def ways(rows: np.ndarray):
        for said, values in norms(x[rows[::size] // size], weight, bias, named["epsilon"]):
            yield said, values.ravel()

    return ways


def _sums_of(operator: str, named: Mapping, tensor: Callable) -> Callable | None:
    """What each element of an operator's result is a sum of, as a function: rows -> Sums."""
    x = tensor("x")
    if x is None or operator not in ("linear", "matmul", "sum", "mean"):
        return None
    if operator == "linear":
        return _of_product(x, tensor("weight"), tensor("bias"))
    if operator == "matmul":
        return _matmul(x, tensor("y"), named)
    return _reduced(x, named.get("axis"), operator == "mean")


def _matmul(x, y, named):
    if x.ndim < 2 or y.ndim < 2:
        return None
    x = x.swapaxes(-1, -2) if named.get("transpose_x") else x
    y = y.swapaxes(-1, -2) if named.get("transpose_y") else y
    return _of_product(x, y)


def _of_product(x: np.ndarray, y: np.ndarray, bias=None):
    """x (..., M, K) times y (..., K, N): rows of the flat result -> Sums."""
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*batch, x.shape[-2], y.shape[-1]) if x.ndim > 1 else (y.shape[-1],)
    x = np.broadcast_to(x, (*batch, *x.shape[-2:])) if x.ndim > 1 else x
    y = np.broadcast_to(y, (*batch, *y.shape[-2:]))

    def take(rows: np.ndarray) -> Sums:
        *of_batch, m, n = np.unravel_index(rows, shape) if len(shape) > 1 else (0, rows)
        a = x[(*of_batch, m)] if x.ndim > 1 else np.broadcast_to(x, (len(rows), x.size))
        b = y.swapaxes(-1, -2)[(*of_batch, n)]
        return Sums(a, b, None if bias is None else bias[n])

    return take


def _of_convolution(x, weight, bias, named: Mapping) -> Callable | None:
    """A convolution's ways: by channels, by places of the kernel, or by blocks of channels."""
    padding = named["padding"]
    if named["groups"] != 1 or isinstance(padding, str):
        return None
    axes = range(2, x.ndim)
    sizes = [padding] * len(axes) if isinstance(padding, int) else padding
    x = np.pad(x, [(0, 0), (0, 0), *((int(size), int(size)) for size in sizes)])
    kernel = weight.shape[2:]
    spread = [d * (k - 1) + 1 for d, k in zip(named["dilation"], kernel, strict=True)]
    x = np.lib.stride_tricks.sliding_window_view(x, spread, tuple(axes))
    steps = (slice(None, None, step) for step in named["stride"])
    places = (slice(None, None, step) for step in named["dilation"])
    x = x[(slice(None), slice(None), *steps, *places)]  # (B, C, *T, *K)
    shape = (len(x), len(weight), *x.shape[2 : x.ndim - len(kernel)])
    channels = weight.shape[1]
    blocks = [size for size in (8, 16) if channels > size and channels % size == 0]

    def ways(rows: np.ndarray):
        batch, filters, *at = np.unravel_index(rows, shape)
        terms = x[(batch, slice(None), *at)], weight[filters]
        start = None if bias is None else bias[filters]
        pair = [v.reshape(len(rows), channels, -1) for v in terms]
        for said, values in orders(Sums(*(v.reshape(len(rows), -1) for v in pair), start)):
            yield Kind.BY_CHANNELS(order=said), values
        for size in (channels, *blocks):
            turned = (v.reshape(len(rows), -1, size, v.shape[2]) for v in pair)
            flat = (v.swapaxes(2, 3).reshape(len(rows), -1) for v in turned)
            by = partial(Kind.BY_PLACES_IN_BLOCKS, size=size) if size < channels else Kind.BY_PLACES
            for said, values in orders(Sums(*flat, start)):
                yield by(order=said), values

    return ways


def _of_einsum(equation: str, a: np.ndarray, b: np.ndarray) -> Callable | None:
    """What each element of an einsum of two tensors is a sum of; None where it names no output."""
    taken, _, given = equation.replace(" ", "").partition("->")
    first, _, second = taken.partition(",")
    if not given or "." in equation or len({*first}) < len(first):
        return None
    sizes = dict(zip(first + second, a.shape + b.shape, strict=True))
    summed = [letter for letter in first if letter not in given]
    if any(letter not in second for letter in summed) or {*second} - {*given} - {*summed}:
        return None

    def take(rows: np.ndarray) -> Sums:
        of_rows = np.unravel_index(rows, [sizes[letter] for letter in given])
        places = {letter: at[:, None] for letter, at in zip(given, of_rows, strict=True)}
        grid = np.indices([sizes[letter] for letter in summed]).reshape(len(summed), 1, -1)
        places |= dict(zip(summed, grid, strict=True))
        terms = (v[tuple(places[k] for k in letters)] for letters, v in ((first, a), (second, b)))
        return Sums(*(np.broadcast_to(each, (len(rows), grid.shape[2])) for each in terms))

    return take


def _reduced(x: np.ndarray, axis, is_mean: bool):
    """The sums or means of x over an axis, some axes or all."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted(each % x.ndim for each in axes) or list(range(x.ndim))
    kept = [each for each in range(x.ndim) if each not in axes]
    flat = x.transpose(*kept, *axes).reshape(-1, math.prod(x.shape[each] for each in axes))
    return lambda rows: Sums(flat[rows], divided=float(flat.shape[1]) if is_mean else 1.0)


def gradients_of(operator: str, named: Mapping, inputs, given) -> dict[str, Callable]:
    """Input's name -> what `ways_of` gives, of gradients that are sums; `given` at the output."""
    found = _sums_of_gradients(operator, named, inputs, given)
    return {name: lambda rows, sums=sums: orders(sums(rows)) for name, sums in found}


def _broadcast(operator: str, named: Mapping, inputs, given):
    """Gradients of what was broadcast: sums over the places that one element was used at."""
    for name, at in named.items():
        if not isinstance(at, Mapping) or inputs[at["tensor"]].shape == given.shape:
            continue
        shape = inputs[at["tensor"]].shape
        terms = -given if (operator, name) == ("subtract", "y") else given
        if operator == "multiply":
            others = [inputs[o["tensor"]] for n, o in named.items() if n != name]
            terms = given * others[0]
        shape = (1,) * (given.ndim - len(shape)) + shape
        axes = [k for k, size in enumerate(shape) if size == 1 and given.shape[k] != 1]
        yield name, _reduced(terms, axes, False)


def _sums_of_gradients(operator: str, named: Mapping, inputs, given):
    if operator in ("add", "subtract", "expand", "multiply"):
        tensors = {n: at for n, at in named.items() if isinstance(at, Mapping)}
        return _broadcast(operator, tensors, inputs, given)
    if operator not in ("linear", "matmul") or "x" not in named:
        return []

    def tensor(name):
        told = named.get(name)
        return inputs[told["tensor"]] if isinstance(told, Mapping) else None

    x, y = tensor("x"), tensor("weight" if operator == "linear" else "y")
    if min(x.ndim, y.ndim) < 2:
        return []
    if operator == "linear":
        rows, of_rows = x.reshape(-1, x.shape[-1]), given.reshape(-1, given.shape[-1])
        found = [("x", _of_product(of_rows, y.T)), ("weight", _of_product(rows.T, of_rows))]
        return [*found, ("bias", lambda at: Sums(of_rows.T[at]))]
    if x.shape[:-2] != y.shape[:-2] or named.get("transpose_x"):
        return []
    turned = named.get("transpose_y")
    of_x = _of_product(given, y if turned else y.swapaxes(-1, -2))
    first, second = (given, x) if turned else (x, given)
    return [("x", of_x), ("y", _of_product(first.swapaxes(-1, -2), second))]


# ---- results ------------------------------------------------------------------------------------


def sampled(torch: np.ndarray, paddle: np.ndarray, group: int = 1) -> np.ndarray:
    """Places of flat results that are computed again: those that differ first, in whole groups."""
    off = ~_same(torch, paddle).reshape(-1, group).all(axis=1)
    most = max(8, MOST // group)
    order = np.concatenate([np.flatnonzero(off)[: most // 2 + 1], np.flatnonzero(~off)])[:most]
    if off.sum() > order.size:
        order = np.flatnonzero(off)[:: off.sum() // most][:most]
    return (order[:, None] * group + np.arange(group)).ravel()
