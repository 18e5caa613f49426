"""The operators that a side's model calls, in order: what a reproduction is written from.

A tensor is a number here, in the order in which tensors come up.  Each operator is a line of Python
in which «7» stands for tensor 7.  Behind a probe's key is the tensor that passed there.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from twincheck.common.sides import probes
from twincheck.common.sides.calls import CONVOLUTION, GETTER, INFIX, PREFIX, changed
from twincheck.common.system.intercept import stand_in
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.tree import tree_leaves

FLOATS = ("float32", "float64")  # what a program computes in, in turn
# What draws by itself, or is not the same at each call: its results are given.
_DRAWS = ("rand", "bernoulli", "multinomial", "normal", "uniform", "gumbel", "exponential_")
_FROM_NOTHING = ("arange", "zeros", "ones", "full", "eye", "linspace")  # of operators of no tensor
_LARGEST = np.finfo(np.float64).max
_FILLS = ("copy_", "set_value")  # what a tensor held before is gone
NEXT = 8  # marked tensors behind the first ones
_ELSEWHERE = ("device", "place", "memory_format", "pin_memory", "layout", "name", "non_blocking")
_ELSEWHERE += ("_stacklevel",)


class Untold(Exception):
    """An operator takes what cannot be written down."""


@dataclass
class Operator:
    """One call: how it is written, which tensors it uses, makes and changes."""

    text: str
    uses: list[int]
    made: list[int]
    several: bool = False  # it gives a tuple or a list
    changes: list[int] = field(default_factory=list)


@dataclass
class Tape:
    """The record of one run: operators, the keys' tensors, and arrays."""

    operators: list[Operator] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)  # probe's key or parameter's -> tensor
    arrays: dict[int, np.ndarray] = field(default_factory=dict)  # before anything changed them
    ends: dict[int, np.ndarray] = field(default_factory=dict)  # what targets held in the end

    def write(self, stem: Path) -> None:
        """Leave it in STEM.json and STEM.npz."""
        told = [asdict(one) for one in self.operators]
        write_json(stem.with_suffix(".json"), {"operators": told, "marks": self.marks})
        ends = {f"-{n}": values for n, values in self.ends.items()}
        arrays = {str(n): values for n, values in self.arrays.items()}
        np.savez(stem.with_suffix(".npz"), **arrays, **ends)

    @classmethod
    def read(cls, stem: Path) -> "Tape":
        """Read a tape that `write` left."""
        told = load_json(stem.with_suffix(".json"))
        stored = read_npz(stem.with_suffix(".npz"))
        arrays = {int(n): values for n, values in stored.items() if n[0] != "-"}
        ends = {int(n[1:]): values for n, values in stored.items() if n[0] == "-"}
        return cls([Operator(**one) for one in told["operators"]], told["marks"], arrays, ends)


class Recorder:
    """Takes down the operators of one side while a model of it runs.

    gradients   whether what lets no gradient through is written so
    """

    def __init__(self, side, gradients: bool = False):
        self.side, self.gradients, self.tape, self.paused = side, gradients, Tape(), False
        self.kept: list[object] = []  # the tensors: an id is one's own as long as it lives
        self.numbers: dict[int, int] = {}
        self.copies: dict[int, np.ndarray] = {}  # of tensors that an operator has changed since

    def number(self, value) -> int:
        """The tensor's number; a new one where it has come up from nowhere."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.kept)
            self.kept.append(value)
        return self.numbers[id(value)]

    def hear(self, name: str, own, arguments, options):
        """Call a function that a model calls, and take it down as people write it."""
        if name.endswith(GETTER):
            attribute = name.removesuffix(GETTER).rpartition(".")[2]
            return self.call(own, arguments, options, lambda w, n: f"{w[0]}.{attribute}")
        text = convolution if name.endswith(CONVOLUTION) else partial(written, name)
        return self.call(own, arguments, options, text, changed(name))

    def call(self, own, arguments, options, text, changes: Sequence[int] = ()):
        """Call an operator and take it down.

        text      text(words, named) -> how it is written, of its arguments as text
        changes   which arguments it writes into
        """
        if self.paused:
            return own(*arguments, **options)
        with self.pause():
            uses: list[int] = []
            try:
                words = [self._told(value, uses) for value in arguments]
                named = {k: self._told(v, uses) for k, v in options.items() if k not in _ELSEWHERE}
            except Untold:
                words = None
            if options.get("inplace") is True:
                changes = (0,)
            may = [arguments[k] for k in changes if k < len(arguments)]
            may = [self.number(value) for value in may if self.side.is_tensor(value)]
            before = {number: self._array(number) for number in may}
            result = own(*arguments, **options)
            changed = [n for n, v in before.items() if not np.array_equal(v, self._array(n))]
            for number in changed:
                self.copies.setdefault(number, before[number])
            values = [value for _, value in tree_leaves(result, self.side.is_tensor)]
            new = any(id(value) not in self.numbers for value in values)
            made = [self.number(value) for value in values]
            line = text(words, named) if words is not None else ""
            filled = any(part in line.rpartition("(")[0] for part in _FILLS + _DRAWS)
            if changed and (not line or filled):
                self.numbers.pop(id(arguments[0]))  # what it holds now has come up from nowhere
                self.number(arguments[0])
            elif line and (changed or new):
                drawn = any(part in line.partition("(")[0] for part in _DRAWS)
                if not drawn and (uses or any(part in line for part in _FROM_NOTHING)):
                    several = isinstance(result, tuple | list)
                    if self.gradients and not several and self._stops(uses, result):
                        line += ".detach()" * (not line.endswith(".detach()"))
                    self.tape.operators.append(Operator(line, uses, made, several, changed))
        return result

    def _stops(self, uses: list[int], result) -> bool:
        """Return whether no gradient comes back from a result to what it is computed from."""
        learns = self.side.wants_gradient
        used = any(learns(self.kept[number]) for number in uses)
        return used and not learns(result) and "float" in str(result.dtype)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Inside, nothing is taken down."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    @contextmanager
    def at_probes(self) -> Iterator[None]:
        """Inside, what passes a probe is known by its key."""
        own = probes.observe

        def observe(side, session, label, value, *rest, **more):
            with self.pause():
                seen = own(side, session, label, value, *rest, **more)
            self.mark(session.prefix + label, value)
            if self.side.is_tensor(value):
                self.numbers[id(seen)] = self.number(value)
                self.kept.append(seen)
            return seen

        put_back = stand_in(probes, "observe", observe)
        try:
            yield
        finally:
            put_back()

    def mark(self, key: str, value) -> None:
        """Note the tensor that passes under a key."""
        if self.side.is_tensor(value):
            self.tape.marks.setdefault(key, self.number(value))

    def name(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Give tensors that have come up the names of parameters."""
        for name, value in pairs:
            if id(value) in self.numbers:
                self.tape.marks.setdefault(name, self.numbers[id(value)])

    def finished(self, numbers: Iterable[int], targets: Iterable[int]) -> None:
        """Keep the arrays of these tensors."""
        for number in numbers:
            self.tape.arrays[number] = self.copies.get(number, self._array(number))
        self.tape.ends = {number: self._array(number) for number in targets}

    def _array(self, number: int) -> np.ndarray:
        return np.array(self.side.view(self.kept[number]))

    def _told(self, value, uses: list[int]) -> str:
        """Return an argument as Python writes it."""
        if self.side.is_tensor(value):
            number = self.number(value)
            uses.append(number)
            return f"«{number}»"
        if isinstance(value, str) and value in FLOATS:
            return "dtype"
        if isinstance(value, bool | int | str | type(None) | type(...)):
            return "..." if value is ... else repr(value)
        if isinstance(value, float | np.floating):
            if abs(value) == _LARGEST:
                return f"{'-' * (value < 0)}np.finfo(precision).max"
            return repr(float(value)) if np.isfinite(value) else f"float('{float(value)}')"
        if isinstance(value, np.integer):
            return repr(int(value))
        if isinstance(value, slice):
            parts = [self._told(p, uses) for p in (value.start, value.stop, value.step)]
            return f"slice({', '.join(parts)})"
        if isinstance(value, tuple | list):
            inner = ", ".join(self._told(one, uses) for one in value)
            many = f"{inner}{',' if len(value) == 1 else ''}"
            return f"({many})" if isinstance(value, tuple) else f"[{inner}]"
        name = str(value).rpartition(".")[2]
        if type(value).__name__ in ("dtype", "DataType", "VarType") and name.isidentifier():
            return "dtype" if name in FLOATS else f"{self.side.NAME}.{name}"
        raise Untold


# What conv2d and conv3d take of what Paddle's layers call in their place.
_OF_CONVOLUTION = ("bias", "stride", "padding", "dilation", "groups", "data_format")


def convolution(words: list[str], named: dict[str, str]) -> str:
    """A layer's convolution as people write it."""
    if named["padding_algorithm"] != "'EXPLICIT'":
        named = named | {"padding": named["padding_algorithm"]}
    kind = "conv3d" if "conv3d" in named["op_type"] else "conv2d"
    named = {name: named[name] for name in _OF_CONVOLUTION}
    return written(f"paddle.nn.functional.{kind}", words, named)


def written(function: str, words: list[str], named: dict[str, str]) -> str:
    """A call as Python writes it: of a method of a tensor, an operator's sign or an index too."""
    more = [f"{key}={value}" for key, value in named.items()]
    owner, _, name = function.rpartition(".")
    if not owner.endswith("Tensor"):
        return f"{function}({', '.join([*words, *more])})"
    bare = name.strip("_")
    if name == "__getitem__":
        return f"{words[0]}[{_index(words[1])}]"
    if name == "__setitem__":
        return f"{words[0]}[{_index(words[1])}] = {words[2]}"
    if name.startswith("__") and len(words) == 2:
        if bare in INFIX:
            return f"({words[0]} {INFIX[bare]} {words[1]})"
        if bare[:1] == "r" and bare[1:] in INFIX:
            return f"({words[1]} {INFIX[bare[1:]]} {words[0]})"
        if bare[:1] == "i" and bare[1:] in INFIX:
            return f"{words[0]} {INFIX[bare[1:]]}= {words[1]}"
    if name.startswith("__") and bare in PREFIX:
        return f"({PREFIX[bare]}{words[0]})"
    return f"{words[0]}.{name}({', '.join([*words[1:], *more])})"


def _index(text: str) -> str:
    """Return the text of an index as it stands in brackets: slices with colons."""
    text = text[1:-1].rstrip(",") if text[:1] == "(" and text[-1:] == ")" else text
    return re.sub(r"slice\(([^(),]+), ([^(),]+), ([^(),]+)\)", _colons, text) or "()"


def _colons(parts: re.Match) -> str:
    start, stop, step = (one.replace("None", "") for one in parts.groups())
    return f"{start}:{stop}" + (f":{step}" if step else "")


def part(
    operators: Sequence[Operator], targets: Collection[int], given: Collection[int]
) -> list[Operator]:
    """Return the operators that make targets of what is given, or of what nothing here makes."""
    wanted, kept = set(targets), []
    for one in reversed(operators):
        if wanted.isdisjoint(one.made) and wanted.isdisjoint(one.changes):
            continue
        kept.append(one)
        wanted.difference_update(set(one.made) - set(one.uses) - set(one.changes))
        wanted.update(set(one.uses) - (set(given) - set(one.changes)))
    return kept[::-1]


def behind(
    operators: Sequence[Operator], start: int, marked: Collection[int]
) -> tuple[list[int], list[int]]:
    """Return the first marked tensors computed from `start`, each way, and the next of them.

    Where none is, the next are those that come after it: the other side may compute them from it.
    """
    near, far, first, further, later = {start}, set(), [], [], []
    for one in operators:
        results = [n for n in (*one.made, *one.changes) if n != start and n not in first + further]
        at_once = not near.isdisjoint(one.uses)
        if not at_once and far.isdisjoint(one.uses):
            later += [n for n in results if n in marked and n > start]
            continue
        for n in results:
            if n in marked:
                (first if at_once else further).append(n)
                far.add(n)
            else:
                (near if at_once else far).add(n)
    if not first:
        first = sorted(near - {start})[-1:]
    return first, (further if first else later)[:NEXT]
