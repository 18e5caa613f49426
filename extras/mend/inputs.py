"""Changes of a pair's inputs within their kinds, and the cases of a case.py that have them.

NumPy only.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from twincheck.common.pair.pairs import PERTURBED, Case, Pair
from twincheck.extras.mend.edits import INDICES, Source

SEEDS = 12  # of the inputs that say of which kind each is
MOST_VALUES, IN_ALL_FORMS = 7, 3  # that one input's integers are tried at
_FUNCTION = """

# ---- by twincheck power: inputs that show mistakes which those above do not ----------------------

{former} = make_inputs


def make_inputs(config, seed, {keyword}="", **more):
    \"\"\"The inputs, in one of the cases below changed as it says.\"\"\"
    inputs = {former}(config, seed, **more)
{changes}    return inputs


"""


@dataclass(frozen=True)
class Change:
    """One change of the inputs: its case's name, and the lines of code that make it."""

    name: str
    lines: tuple[str, ...]


def changes(pair: Pair, case: Case, seed: int, ports: Iterable[Source]) -> Iterator[Change]:
    """Yield changes of a case's inputs that stay within the kinds that its inputs are of.

    ports       what the port consists of: integers in it are tried where an input's may be
    """
    drawn = [pair.make_inputs(case, seed + i) for i in range(SEEDS)]
    kinds = {name: _Kind.of([one[name] for one in drawn]) for name in drawn[0] if "/" not in name}
    written = set()
    for source in ports:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and type(node.value) is int:
                written.add(node.value)
    indices = {k.value for source in ports for k in _indices(source)}
    for name, kind in kinds.items():
        one = f"inputs[{name!r}]"
        for i, line in enumerate(kind.lines(one, written, indices), 1):
            copied = f"{one} = np.array({one})"
            yield Change(f"{name}_{i}", (copied, line))
    masks = [name for name, kind in kinds.items() if kind.is_mask]
    ids = [name for name, kind in kinds.items() if kind.is_id]
    for mask in masks:  # a batch as it is padded
        for name in (n for n in ids if kinds[n].shape == kinds[mask].shape):
            low, end = kinds[name].low, kinds[name].end
            both = (f"inputs[{name!r}]", f"inputs[{mask!r}]")
            copied = tuple(f"{one} = np.array({one})" for one in both)
            for value in dict.fromkeys((low, *sorted(indices))):
                lines = (f"{both[0]}[-1:, {end}:] = {value}", f"{both[1]}[:] = 1")
                yield Change(
                    f"{name}_padded_{abs(value)}",
                    (*copied, *lines, f"{both[1]}[-1:, {end}:] = 0"),
                )


def _indices(source: Source) -> Iterator[ast.Constant]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg in INDICES:
            if isinstance(node.value, ast.Constant) and type(node.value.value) is int:
                yield node.value


@dataclass(frozen=True)
class _Kind:
    """The kind of an input: its shape, and between which values it is drawn."""

    kind: str
    shape: tuple[int, ...]
    low: float
    high: float

    @classmethod
    def of(cls, drawn: list[np.ndarray]) -> "_Kind":
        """The kind of what several seeds draw."""
        first, least, most = drawn[0], min, max
        some = [one for one in drawn if one.size]
        low = least((one.min().item() for one in some), default=0)
        high = most((one.max().item() for one in some), default=0)
        return cls(first.dtype.kind, first.shape, low, high)

    @property
    def is_mask(self) -> bool:
        """True for zeros and ones."""
        return self.kind in "biu" and (self.low, self.high) == (0, 1)

    @property
    def is_id(self) -> bool:
        """True for other whole numbers."""
        return self.kind in "iu" and not self.is_mask

    @property
    def end(self) -> int:
        """Return how many of the last axis's places are behind its first two thirds, below 0."""
        return -max(1, self.shape[-1] // 3) if self.shape else 0

    def lines(self, one: str, written: set[int], indices: set[int]) -> Iterator[str]:
        """Yield statements that change an input in place, the most telling first."""
        if not self.shape or 0 in self.shape:
            return
        if self.kind == "f" and not self.low < 0 < self.high:  # it may have to stay between these
            values = dict.fromkeys((0.0, self.low, self.high) if self.low == 0 else ())
        elif self.kind == "f":
            yield from (
                f"{one} *= 30",
                f"{one} += 3",
                f"{one} *= 0.01",
                f"{one}[:] = {one}.round()",
            )
            values = {0.0: None}
        elif self.kind in "biu":
            near = sorted(v for v in written if self.low <= v <= self.high and v > 1)
            found = (*sorted(indices), self.low, self.high, *near)
            values = dict.fromkeys(map(int, found))
        else:
            return
        for i, value in enumerate(list(values)[:MOST_VALUES]):
            yield f"{one}[..., {self.end}:] = {value}"
            if i < IN_ALL_FORMS:
                yield f"{one}[..., 1::3] = {value}"
                yield f"{one}[:] = {value}"
        if self.kind in "iu":
            yield f"{one}.sort()"


def with_cases(text: str, pair: Pair, preset: str, like: Case, some: Iterable[Change]) -> str:
    """Return a case.py's text with a case for each change, named as the change is."""
    number = next(i for i in range(1, 1000) if f"_inputs_{i}" not in text)
    former, keyword, lines, rows = f"_inputs_{number}", f"change_{number}", "", {}
    table = getattr(pair.case, "CASES", {}).get(preset) or {}
    base = table.get(like.name, {"weights": PERTURBED})
    base = {name: value for name, value in base.items() if name not in ("train", "decode")}
    for one in some:
        indented = "".join(f"        {line}\n" for line in one.lines)
        lines += f"    if {keyword} == {one.name!r}:\n{indented}" if indented else ""
        inputs: Mapping = base.get("inputs", {})
        rows[one.name] = {**base, "inputs": {**inputs, keyword: one.name}}
    own = {} if table else {"main": {}, PERTURBED: {"weights": PERTURBED}}
    made = _FUNCTION.format(former=former, keyword=keyword, changes=lines).replace("'", '"')
    start = "" if hasattr(pair.case, "CASES") else "CASES = {}\n"
    start += f"CASES[{preset!r}] = {{\n"
    start += f"    **CASES[{preset!r}],\n" if table else ""
    entries = "".join(f"    {name!r}: {row!r},\n" for name, row in {**own, **rows}.items())
    table = f"{start}{entries}}}\n".replace("'", '"')
    return f"{text.rstrip()}\n{made}{table}"
