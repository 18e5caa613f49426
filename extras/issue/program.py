"""A program of NumPy, torch and Paddle alone, from both sides' tapes: what differs, and no more.

Values that both sides have are given, so that only what makes the difference is left: behind the
last values that agree, the operators that lead to the first one that does not.
"""

import ast
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twincheck.common.system.frameworks import SIDES
from twincheck.extras.issue import Kind
from twincheck.extras.issue.taken import FURTHER, ORIGIN, TARGET
from twincheck.extras.issue.tape import Operator, Tape, part

LINES, WIDTH = 60, 100
STARTS = 4  # of what a gradient may be asked at, where it is missing
# Of a value's size: in float64, as Paddle's operators hold their attributes in float32; in float32.
SAME, ROUNDED = 1e-7, 1e-4
AXES = ((1, 0), (0, 2, 1), (1, 0, 2), (0, 2, 1, 3), (0, 1, 3, 2))
_USE = re.compile("«([0-9]+)»")


class NoProgram(Exception):
    """No program shows the difference; its text says why."""


class TooLong(NoProgram):
    """One does, and is no small example."""


@dataclass(frozen=True)
class Way:
    """The way from torch's array to Paddle's: as it is, with other axes, or in another shape."""

    method: str = ""  # of an array: transpose or reshape
    there: tuple[int, ...] = ()
    back: tuple[int, ...] = ()

    def of(self, text: str, back: bool = False) -> str:
        """Return the expression of a text's array taken this way, or back."""
        return f"{text}.{self.method}{self.back if back else self.there}" if self.method else text

    def taken(self, values: np.ndarray) -> np.ndarray:
        """Return the array at the way's other end."""
        return getattr(values, self.method)(self.there) if self.method else values


@dataclass(frozen=True)
class Given:
    """One array that both sides are given, or one of them."""

    values: np.ndarray
    label: str
    numbers: Mapping[str, int]  # side -> its tensor
    way: Way = Way()  # to Paddle's


@dataclass
class Slice:
    """The part of a tape that one side computes: operators, their targets, what they are given."""

    operators: list[Operator]
    targets: list[int]
    given: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Reproduction:
    """The content of a program: both sides' operators, what they are given, what they give."""

    sides: Mapping[str, Slice]
    given: list[Given]
    wanted: Mapping[str, np.ndarray]  # side -> what was recorded at its end; of a gradient's a sum
    start: Mapping[str, int] | None = None  # whose gradient it is about

    @property
    def stored(self) -> dict[str, np.ndarray]:
        """Return the given arrays by their names."""
        return {f"v{i}": given.values for i, given in enumerate(self.given)}

    @property
    def precision(self) -> str:
        """Return the tapes' precision, by the arrays that are given."""
        kinds = (given.values.dtype for given in self.given)
        return next((kind.name for kind in kinds if kind.kind == "f"), "float64")

    @property
    def may_be_drawn(self) -> bool:
        """Return whether random arrays will do: not where each side has one of its own, unlike."""
        own = (given for given in self.given if "rng" in drawn(given.values))
        return len({tuple(given.numbers) for given in own if len(given.numbers) == 1}) < len(SIDES)


def reproductions(
    tapes: Mapping[str, Tape], gradient: bool, exact: bool, loose: bool = False
) -> Iterator[Reproduction]:
    """Yield what is left of both tapes where values that agree are given, to show the difference.

    gradient    it is about the gradient at the origin
    exact       the tapes are in float64; in float32 the values inside say of none what is off
    loose       values agree also if one has other axes, or another shape: less is left, but what
                differs may be how a side comes by its axes
    Raises NoProgram where nothing can be shown.
    """
    if not gradient:
        yield _between(tapes, _targets(tapes), None, exact, loose)
        return
    origin = {side: tapes[side].marks[ORIGIN] for side in SIDES}
    why = None
    try:
        yield _between(tapes, _targets(tapes), origin, exact, loose)
    except NoProgram as error:
        why = error
    # One side may not let it through: then it is missing at what the origin is computed from, and
    # values inside do not tell.
    ends = {side: [number] for side, number in origin.items()}
    starts = [
        given.numbers
        for given in _between(tapes, ends, None, False, loose).given
        if len(given.numbers) == len(SIDES) and given.values.dtype.kind == "f"
    ]
    for start in starts[:STARTS]:
        yield _between(tapes, ends, start, False, loose)
    if why:
        raise why


def _between(
    tapes: Mapping[str, Tape],
    targets: Mapping[str, list[int]],
    start: Mapping[str, int] | None,
    exact: bool,
    loose: bool,
) -> Reproduction:
    """Cut both tapes to what makes the targets of what agrees; NoProgram where nothing does."""
    alike = _alike(tapes, targets, start, exact, loose)
    sides = {}
    for side, tape in tapes.items():
        fixed = {numbers[side] for numbers, _ in alike}  # the start among them
        operators = part(tape.operators, targets[side], fixed - set(targets[side]))
        made: set[int] = set()
        given: dict[int, None] = {}
        for one in operators:  # what is changed in place may be given before
            given |= dict.fromkeys(n for n in one.uses if n not in made)
            made.update(one.made)
        ends = [*targets[side], *([start[side]] if start else [])]
        given |= dict.fromkeys(n for n in ends if n not in made)
        sides[side] = Slice(operators, targets[side], list(given))
    if not sides["paddle"].operators and not sides["torch"].operators:
        raise NoProgram(Kind.VALUE_GIVEN())
    ends = {side: [tapes[side].ends[n] for n in targets[side]] for side in SIDES}
    if start:
        ends = {side: [np.sum([(v * v).sum() for v in each])] for side, each in ends.items()}
    wanted = {side: each[0] for side, each in ends.items()}
    return Reproduction(sides, _given(tapes, sides, alike), wanted, start)


def _targets(tapes: Mapping[str, Tape]) -> dict[str, list[int]]:
    """The tensors that the program ends with, of each side in the same order."""
    first, further = (
        {s: {k[len(h) :]: n for k, n in tapes[s].marks.items() if k.startswith(h)} for s in SIDES}
        for h in (TARGET, FURTHER)
    )
    keys = [key for key in first["torch"] if key in first["paddle"]]
    if any({of[key] for key in keys} < set(of.values()) for of in first.values()):
        first = {side: first[side] | further[side] for side in SIDES}
        keys = [key for key in first["torch"] if key in first["paddle"]][:1]
    # One tensor may have several names.
    keys = list({first["torch"][key]: key for key in keys}.values())
    if not keys:
        raise NoProgram(Kind.OPERATORS_NOT_PUBLIC())
    return {side: [first[side][key] for key in keys] for side in SIDES}


def _alike(tapes, targets, start, exact: bool, loose: bool) -> list[tuple[dict[str, int], Way]]:
    """Tensors that both sides have, as ({side: number}, the way to Paddle's).

    exact   in float64; in float32 the values inside say of none what is off
    loose   with other axes, or in another shape, they are the same too
    """
    free, made = {}, {}
    for side, tape in tapes.items():
        made[side] = {n for one in tape.operators for n in one.made}
        # What is computed and then changed has two values; what is asked about is computed.
        barred = {n for one in tape.operators for n in one.changes} | set(targets[side])
        barred &= made[side]
        if start:
            reached = {start[side]}
            for one in tape.operators:
                if not reached.isdisjoint(one.uses):
                    reached.update(one.made)
            barred |= reached
        if not exact:
            barred |= made[side]
        free[side] = {n: values for n, values in tape.arrays.items() if n not in barred}
    found = []
    if start:
        same = _same(*(tapes[side].arrays[start[side]] for side in SIDES), SAME, loose)
        found.append((dict(start), same or Way()))
    for number, theirs in free["torch"].items():
        constant = theirs.size and np.all(theirs == theirs.flat[0])
        for other, own in free["paddle"].items():
            if constant and (number in made["torch"] or other in made["paddle"]):
                continue  # two constants may be of different origin
            way = _same(theirs, own, SAME if exact else ROUNDED, loose)
            if way is not None:
                found.append(({"torch": number, "paddle": other}, way))
                del free["paddle"][other]
                break
    return found


def _same(theirs: np.ndarray, own: np.ndarray, within: float, loose: bool) -> Way | None:
    """Return the way in which two arrays are the same; None where they are not."""
    if theirs.dtype.kind != own.dtype.kind or theirs.size != own.size:
        return None
    ways = [Way()] if theirs.shape == own.shape else []
    if loose or theirs.ndim == 2:  # a layer's weight
        ways += [Way("transpose", axes, axes) for axes in AXES if len(axes) == theirs.ndim]
    if loose and theirs.shape != own.shape and theirs.ndim and own.ndim:
        ways.append(Way("reshape", own.shape, theirs.shape))
    for way in ways:
        mine = way.taken(theirs)
        if mine.shape == own.shape and _equal(mine, own, within):
            return way
    return None


def _equal(theirs: np.ndarray, own: np.ndarray, within: float) -> bool:
    if theirs.dtype.kind not in "fc":
        return bool(np.array_equal(theirs, own))
    finite = np.isfinite(theirs)
    if not np.array_equal(finite, np.isfinite(own)):
        return False
    scale = np.abs(theirs[finite]).max(initial=0.0)
    return bool(np.abs(theirs[finite] - own[finite]).max(initial=0.0) <= within * scale)


def _given(tapes, sides, alike) -> list[Given]:
    """The arrays that the program makes, those of both sides first."""
    given, told = [], {side: set() for side in SIDES}
    names = {
        side: {n: key for key, n in reversed(tape.marks.items())} for side, tape in tapes.items()
    }
    for numbers, way in alike:
        used = {side: n for side, n in numbers.items() if n in sides[side].given}
        if used:
            label = names["torch"].get(numbers["torch"]) or names["paddle"].get(
                numbers["paddle"], ""
            )
            values = tapes["torch"].arrays[numbers["torch"]]
            given.append(Given(values, label, used, way))
            for side, n in used.items():
                told[side].add(n)
    for side in SIDES:
        for n in sides[side].given:
            if n not in told[side]:
                told[side].add(n)
                label = names[side].get(n, "")
                given.append(
                    Given(tapes[side].arrays[n], f"{label} ({side} alone)".strip(), {side: n})
                )
    return given


# ---- the text -----------------------------------------------------------------------------------


def text_of(one: Reproduction, title: str, seed: int, stored: str = "", again: bool = False) -> str:
    """The program.

    stored  the name of the file that holds the arrays; "" where they are drawn
    again   one that fails where a side does not compute what was recorded, from stored arrays
    """
    arrays = [f"v{i}" for i in range(len(one.given))]
    lines = [*textwrap.wrap(f'"""{title}"""', WIDTH), *_START.rstrip().splitlines(), ""]
    if stored:
        lines.append(f'given = np.load("{stored}")')
    else:
        lines.append(f"rng = np.random.default_rng({seed})")
    for name, given in zip(arrays, one.given, strict=True):
        made = f'given["{name}"]' if stored else drawn(given.values)
        label = f"  # {given.label}" if given.label else ""
        line = f"{name} = {made}"
        lines.append(line + label if len(line + label) <= WIDTH else line)
    lines += ["", *_GIVEN.rstrip().splitlines()]
    if one.start is not None:
        lines += ["", "", *_GRADIENT.strip().splitlines()]
    for side in SIDES:
        lines += ["", "", f"def by_{side}(precision):", *_body(one, side, arrays, again)]
    within = SAME if one.precision == "float64" else ROUNDED
    end = _AGAIN.format(stored=stored, precision=one.precision, within=within) if again else _END
    lines += ["", "", *end.strip().splitlines()]
    return "\n".join(lines) + "\n"


def _body(one: Reproduction, side: str, arrays: Sequence[str], again: bool) -> list[str]:
    own = one.sides[side]
    names, passed = {}, []
    for name, given in zip(arrays, one.given, strict=True):
        if side in given.numbers:
            names[given.numbers[side]] = name.replace("v", "x")
            passed.append(given.way.of(name) if side == "paddle" else name)
    new = "torch.tensor" if side == "torch" else "paddle.to_tensor"
    heads = f"[{', '.join(names.values())}]" if len(names) == 1 else ", ".join(names.values())
    functional, lines = f"{side}.nn.functional", []
    if sum(functional in operator.text for operator in own.operators) > 1:
        lines.append(f"    F = {functional}")
        shorter = (replace(o, text=o.text.replace(functional, "F")) for o in own.operators)
        own = replace(own, operators=list(shorter))
    body = _written(own, names)
    if any(re.search(r"\bdtype\b(?!=)", line) for line in body):
        value = "getattr(torch, precision)" if side == "torch" else "precision"
        lines.append(f"    dtype = {value}")
    if passed:
        lines.append(f"    {heads} = given({new}, precision, {', '.join(passed)})")
    ends = [names[n] for n in own.targets]
    if one.start is None:
        end = ".detach().numpy()" if side == "torch" else ".numpy()"
        return [*lines, *body, f"    return {ends[0]}{end}"]
    start = names[one.start[side]]
    wants = "requires_grad = True" if side == "torch" else "stop_gradient = False"
    total = " + ".join(f"({end} * {end}).sum()" for end in ends)
    end = f"gradient({total}, {start})"
    if again:
        end = f"({total}).detach().numpy()"
    elif side == "paddle":
        (way,) = (g.way for g in one.given if g.numbers.get(side) == one.start[side])
        end = way.of(end, back=True)
    lines += [f"    {start}.{wants}", *body, f"    return {end}"]
    return lines


def _written(own: Slice, names: dict[int, str]) -> list[str]:
    """The operators as lines; what is used once stands where it is used."""
    counts: dict[int, int] = {}
    for one in own.operators:
        for n in one.uses:
            counts[n] = counts.get(n, 0) + 1
    in_place = any(one.changes for one in own.operators)
    inside: dict[int, str] = {}
    lines: list[str] = []
    numbers = itertools.count()

    def fill(text: str) -> str:
        return _USE.sub(lambda m: inside.get(int(m[1])) or names[int(m[1])], text)

    for at, one in enumerate(own.operators):
        text = fill(one.text)
        if not one.made or (one.changes and set(one.made) <= set(one.changes)):
            lines.append(f"    {text}")
            continue
        made = one.made[0]
        once = len(one.made) == 1 and counts.get(made, 0) == 1 and made not in own.targets
        user = next((o for o in own.operators[at + 1 :] if made in o.uses), None)
        if once and not one.several and not in_place and user is not None:
            if len(text) + len(user.text) < WIDTH - 12:
                inside[made] = text
                continue
        for n in one.made:
            names.setdefault(n, f"y{next(numbers)}")
        if not any(counts.get(n) or n in own.targets for n in one.made):
            lines.append(f"    {text}")  # what it writes into is wanted
            continue
        heads = ", ".join(names[n] for n in one.made)
        heads += "," if one.several and len(one.made) == 1 else ""
        lines.append(f"    {heads} = {text}")
    # As Python writes it itself: without idle brackets.
    return [f"    {ast.unparse(ast.parse(line.strip()))}" for line in lines]


def drawn(values: np.ndarray) -> str:
    """An expression that makes an array like this one, of its shape, kind and size."""
    shape = tuple(values.shape)
    if values.size == 0:
        return f'np.zeros({shape}, "{values.dtype}")'
    if np.all(values == values.flat[0]):
        return f"np.full({shape}, {_number(values.flat[0])})"
    if values.dtype.kind == "b":
        return f"rng.random({shape}) < {values.mean():.2g}"
    if values.dtype.kind in "iu":
        if values.ndim == 1 and np.array_equal(values, np.arange(values.size)):
            return f"np.arange({values.size})"
        if values.size <= 32:
            return f"np.array({values.tolist()})"
        return f"rng.integers({values.min()}, {values.max() + 1}, {shape})"
    few = np.unique(values)
    if len(few) <= 3:
        return f"rng.choice([{', '.join(map(_number, few))}], {shape})"
    if values.min() >= 0:
        return f"rng.uniform({values.min():.3g}, {values.max():.3g}, {shape})"
    return f"rng.normal({values.mean():.3g}, {values.std():.3g}, {shape})"


def _number(value) -> str:
    value = value.item()
    return repr(value) if np.isfinite(value) else f"float('{value}')"


_START = """
import numpy as np
import paddle
import torch
"""
_GIVEN = """
def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]
"""
_GRADIENT = """
def gradient(total, x):
    if total.grad_fn is not None:
        total.backward()
    return np.zeros(x.shape) if x.grad is None else x.grad.numpy()
"""
_AGAIN = """
stored = np.load("{stored}")
for function in (by_torch, by_paddle):
    wanted = stored[function.__name__]
    size = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    found = function("{precision}")
    np.testing.assert_allclose(found, wanted, rtol={within}, atol={within} * size)
"""
_END = """
runs = [(f, p) for f in (by_torch, by_paddle) for p in ("float32", "float64")]
found = [np.clip(np.float64(f(p)), -1e38, 1e38) for f, p in runs]
truth, shape = found[1], found[3].shape
if shape != truth.shape:
    raise SystemExit(f"torch's has the shape {truth.shape}, Paddle's {shape}")
known = np.abs(truth[(truth != 0) & ~np.isnan(truth)])
size = np.maximum(np.abs(truth), np.median(known) if known.size else 1)
apart = [np.nan_to_num(np.abs(v - truth) / size) for v in found]
off = [np.where(np.isnan(v) == np.isnan(truth), a, np.inf) for v, a in zip(found, apart)]
at = np.unravel_index(np.argmax(off[2]), shape)
for (f, p), v, o in zip(runs, found, off):
    print(f"{f.__name__} {p}: {v[at]:.9g} at {list(map(int, at))}; off by {o.max():.1e} at most")
raise SystemExit(int(off[3].max() > 1e-6 or off[2].max() > 30 * max(off[0].max(), 1e-7)))
"""
