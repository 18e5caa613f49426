"""Statements of an `_gen_aoa_config`, carried out on marks: which element goes where.

A statement moves tensors between the names of a checkpoint (Hugging Face) and those of a Paddle
model: `A^T -> B` renames and transposes, `A, B -> C, axis=1` joins, `A -> B, C, axis=0` cuts.
Paddle's own grammar takes them apart (aoa_paddle.py); what is left are `Move`s, which are carried
out here in NumPy, apart from Paddle's engine, with what that does where statements say nothing.
`Marks` gives every element of a checkpoint a number of its own, so that each says where it is from.
NumPy only.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twincheck.extras.certificate import Kind

Shape = Sequence[int]


@dataclass(frozen=True)
class Move:
    """What Paddle's grammar makes of a statement, or of a part of it."""

    left: list[str]
    right: list[str]
    attributes: dict[str, object]
    statement: int  # the number of the statement that it was expanded from

    @property
    def text(self) -> str:
        """The move as a statement."""
        told = "".join(f", {name}={value!r}" for name, value in self.attributes.items())
        return f"{', '.join(self.left)} -> {', '.join(self.right)}{told}"


@dataclass
class _Tensor:
    values: np.ndarray
    statements: frozenset[int]  # through which it came
    used: int = 0  # statements that read it, as Paddle counts them


@dataclass
class Carried:
    """What a program of statements has made."""

    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    by: dict[str, frozenset[int]] = field(default_factory=dict)  # output -> its statements
    left_out: set[str] = field(default_factory=set)  # outputs that `_ -> NAME` leaves alone
    unread: list[str] = field(default_factory=list)  # inputs that nobody read
    removed: dict[str, int] = field(default_factory=dict)  # input -> the statement `NAME -> _`
    unwritten: list[str] = field(default_factory=list)  # outputs that nobody wrote
    problems: dict[int, str] = field(default_factory=dict)  # statement -> why it cannot be run


class Marks:
    """A number for every element of some tensors, and where a number is from.

    shapes   key -> shape
    """

    def __init__(self, shapes: Mapping[str, Shape]):
        self.keys = list(shapes)
        sizes = [int(np.prod(shapes[key], dtype=np.int64)) for key in self.keys]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        ranges = zip(self.starts[:-1], self.starts[1:], strict=True)
        self.arrays = {
            key: np.arange(start, stop).reshape(shapes[key])
            for key, (start, stop) in zip(self.keys, ranges, strict=True)
        }

    def values(self, marks: np.ndarray, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
        """Some marks' elements, of tensors of these shapes."""
        return np.concatenate([tensors[key].reshape(-1) for key in self.keys])[marks]

    def sources(self, marks: np.ndarray) -> dict[str, int]:
        """Key -> how many of the marks are its, the most first."""
        places = np.searchsorted(self.starts, marks.reshape(-1), "right") - 1
        numbers, counts = np.unique(places, return_counts=True)
        found = {self.keys[n]: int(c) for n, c in zip(numbers, counts, strict=True)}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def told(self, marks: np.ndarray, expected: str) -> str:
        """In words: where marks come from that should be those of a key."""
        if marks.shape != self.arrays[expected].shape:
            got, shape = (str(list(one.shape)) for one in (marks, self.arrays[expected]))
            return Kind.SHAPE_OF_KEY_OTHER(got=got, key=expected, shape=shape)
        wrong = int((marks != self.arrays[expected]).sum())
        sources = self.sources(marks)
        others = [key for key in sources if key != expected]
        counts = {"wrong": wrong, "count": marks.size, "key": expected}
        if others:
            return Kind.ELEMENTS_OF_OTHERS(**counts, others=others[:3])
        if marks.ndim == 2 and np.array_equal(marks.T, self.arrays[expected]):
            return Kind.ELEMENTS_TRANSPOSED(key=expected)
        return Kind.ELEMENTS_ELSEWHERE(**counts)


def carry(
    moves: Iterable[Move],
    tensors: Mapping[str, np.ndarray],
    wanted: Iterable[str] | None = None,
    reverse: bool = False,
) -> Carried:
    """Carry out moves on some tensors.

    wanted   the names of what is to come out, which is loaded into a model; None: what nobody has
             read, which a model saves
    reverse  from right to left, the last first (`aoa_config_reverse`)
    A move that cannot be carried out makes nothing, and its statement has a problem.
    """
    program = _Program(tensors, None if wanted is None else set(wanted), reverse)
    moves = list(moves)
    for move in reversed(moves) if reverse else moves:
        program.run(move)
    return program.end()


class _Program:
    def __init__(self, tensors: Mapping[str, np.ndarray], wanted: set[str] | None, reverse: bool):
        self.inputs = {key: _Tensor(array, frozenset()) for key, array in tensors.items()}
        self.made: dict[str, _Tensor] = {}
        self.wanted = wanted
        self.reverse = reverse
        self.done = Carried()
        self.read: set[str] = set()

    def run(self, move: Move) -> None:
        left, right = (move.right, move.left) if self.reverse else (move.left, move.right)
        if right == ["_"]:
            self.done.removed[left[0]] = move.statement
            return
        if left == ["_"]:
            self.done.left_out.add(right[0])
            return
        try:
            sources = [self._get(name) for name in left]
            arrays = self._moved([source.values for source in sources], right, move.attributes)
        except (ValueError, IndexError, TypeError, np.exceptions.AxisError) as error:
            problem = Kind.SAID_OF(name=move.text, said=str(error))
            self.done.problems.setdefault(move.statement, problem)
            return
        through = frozenset({move.statement}).union(*(source.statements for source in sources))
        for source in sources:
            source.used += len(arrays)
        for name, array in zip(right, arrays, strict=True):
            self.made[name] = _Tensor(array, through)

    def _get(self, name: str) -> _Tensor:
        if name in self.made:
            return self.made[name]
        if name not in self.inputs:
            raise ValueError(Kind.MOVE_UNKNOWN(key=name))
        self.read.add(name)
        return self.inputs[name]

    def _moved(self, arrays: list, right: list[str], attributes: Mapping[str, object]) -> list:
        axis = attributes.get("axis")
        if len(right) > 1:
            if len(arrays) > 1 or not isinstance(axis, int):
                raise ValueError(Kind.MOVE_CUT())
            length = arrays[0].shape[axis]
            if length % len(right):
                told = {"length": length, "axis": axis, "count": len(right)}
                raise ValueError(Kind.MOVE_CUT_UNEVEN(**told))
            return np.split(arrays[0], len(right), axis)
        if len(arrays) > 1:
            if not isinstance(axis, int):
                raise ValueError(Kind.MOVE_JOIN())
            return [np.concatenate(arrays, axis)]
        if "permute" not in attributes:  # a cast keeps every element in its place
            return arrays
        order = ast.literal_eval(str(attributes["permute"])) or range(arrays[0].ndim)[::-1]
        return [arrays[0].transpose(np.argsort(order) if self.reverse else order)]

    def end(self) -> Carried:
        """What comes out, by Paddle's rules: a name that nobody wrote keeps its own tensor."""
        out = self._saved() if self.wanted is None else self._loaded()
        self.done.outputs = {name: tensor.values for name, tensor in out.items()}
        self.done.by = {name: tensor.statements for name, tensor in out.items()}
        used = self.read | set(self.done.removed)
        self.done.unread = [k for k, one in self.inputs.items() if k not in used | self._kept(out)]
        return self.done

    def _kept(self, out: Mapping[str, _Tensor]) -> set[str]:
        return {name for name, tensor in out.items() if self.inputs.get(name) is tensor}

    def _loaded(self) -> dict[str, _Tensor]:
        out = {}
        for name in sorted(self.wanted):
            tensor = self.made.get(name)
            if tensor is None and name not in self.done.left_out:
                tensor = self.inputs.get(name)
                if tensor is None:
                    self.done.unwritten.append(name)
            if tensor is not None:
                out[name] = tensor
        return out

    def _saved(self) -> dict[str, _Tensor]:
        removed = self.done.removed
        kept = {k: one for k, one in self.inputs.items() if not one.used and k not in removed}
        return kept | {name: one for name, one in self.made.items() if not one.used}
