"""The numbers that a model computes in Python and NumPy: tables, slopes, positions.

A statement is to it what an operator is to a framework: it is given the names that it reads, and
makes those that it writes.  The numbers that a name has had at one line are one value.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

from twincheck.common.system.files import ONE_SYNTAX_TREE

MOST_STEPS = 300_000  # lines of Python; what runs more is not looked into
_OF_A_STEP = 20  # numbers, which count as much
MOST_NUMBERS = 1 << 16  # of one value
_LARGEST = 1e300
_INSIDE = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")  # of a function

_HEADS = {ast.For: ["target", "iter"], ast.While: ["test"], ast.If: ["test"], ast.With: ["items"]}


@dataclass(eq=False)
class Made:
    """The values that a line has given a name: numbers, one after another, or arrays."""

    file: str
    line: int
    function: str
    given: set["Made"] = field(default_factory=set)
    values: list[np.ndarray] = field(default_factory=list)
    holder: object = None  # the array or list that the last value was read from

    def add(self, value: object, numbers: list[np.ndarray]) -> None:
        """Keep one more value, or what the last one has become by writing into it."""
        if self.holder is value and numbers[0].ndim:
            del self.values[-len(numbers) :]
        self.values += numbers
        self.holder = value

    def arrays(self) -> list[np.ndarray]:
        """Return its values: plain numbers as one row."""
        if all(value.ndim == 0 for value in self.values):
            return [np.array(self.values)]
        return self.values


@dataclass(eq=False)
class _Running:
    """A function of the model that runs."""

    line: int
    names: dict[str, Made] = field(default_factory=dict)
    returned: set[Made] = field(default_factory=set)  # by what its statement has called


class PythonValues:
    """The values that a model's functions compute while they are heard.

    takes  says of a file whether it is a model's
    """

    def __init__(self, takes: Callable[[str], bool]):
        self.takes = takes
        self.made: dict[tuple, Made] = {}  # (code, line, name) -> what it made
        self.steps = 0
        self._running: dict[FrameType, _Running] = {}
        self._attributes: dict[tuple[int, str], Made] = {}
        self._kept: list[object] = []  # holders of attributes, since an id may be given away again

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Inside, the model's functions are heard; not while a debugger hears them."""
        if sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            self._running.clear()

    def read_now(self, frame: FrameType | None) -> set[Made]:
        """Return what is read by the statement that led to a frame; nothing outside a model."""
        frame = self._innermost(frame)
        return self._read(frame) if frame is not None else set()

    def _read(self, frame: FrameType) -> set[Made]:
        running = self._running[frame]
        read = (self._named(frame, running, name) for name in self._statement(frame, running).reads)
        return {*filter(None, read), *running.returned}

    def _statement(self, frame: FrameType, running: _Running) -> "_Statement":
        return _statements(frame.f_code.co_filename).get(running.line, _NOTHING)

    def _named(self, frame: FrameType, running: _Running, name: str) -> Made | None:
        base, _, attribute = name.partition(".")
        if not attribute:
            return running.names.get(name)
        return self._attributes.get((id(frame.f_locals.get(base)), attribute))

    def _enter(self, frame: FrameType, event: str, _):
        code = frame.f_code
        is_over = self.steps > MOST_STEPS or code.co_name.startswith("<")
        if is_over or not self.takes(code.co_filename):
            return None
        by = frame.f_back  # a framework, or a function that is heard: else a file is imported
        while by is not None and by.f_code.co_name in _INSIDE:
            by = by.f_back
        if by is not None and by not in self._running and self.takes(by.f_code.co_filename):
            return None
        given, caller = self.read_now(frame.f_back), self._innermost(frame.f_back)
        running = self._running[frame] = _Running(code.co_firstlineno)
        at = (caller.f_code, self._running[caller].line) if given else (code, code.co_firstlineno)
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if numbers := self._numbers(value := frame.f_locals.get(name)):
                passed = {one for one in given if _is_last(one, numbers)}
                running.names[name] = self._made(*at, f"{code.co_name}({name}", passed or given)
                running.names[name].add(value, numbers)
        return self._step

    def _innermost(self, frame: FrameType | None) -> FrameType | None:
        """Return the innermost function of the model that led to a frame, or is it."""
        while frame is not None and frame not in self._running:
            frame = frame.f_back
        return frame

    def _step(self, frame: FrameType, event: str, value: object):
        running = self._running.get(frame)
        if running is None or event not in ("line", "return"):
            return self._step
        self.steps += 1
        statement, is_end = self._statement(frame, running), event == "return"
        if not is_end and _statements(frame.f_code.co_filename).get(frame.f_lineno) is statement:
            return self._step  # another line of the same
        if not statement.body or frame.f_lineno in statement.body:  # else the loop has ended
            self._written(frame, running, statement)
        if is_end:
            self._returned(frame, running, value)
            del self._running[frame]
        running.line, running.returned = frame.f_lineno, set()
        return self._step if self.steps <= MOST_STEPS else None

    def _written(self, frame: FrameType, running: _Running, statement: "_Statement") -> None:
        given, variables = None, frame.f_locals
        for name in statement.writes:
            base, _, attribute = name.partition(".")
            value = holder = variables.get(base)
            if attribute:
                value = getattr(holder, "__dict__", {}).get(attribute)
            if not (numbers := self._numbers(value)):
                continue
            given = self._read(frame) if given is None else given
            made = self._made(frame.f_code, running.line, name, given)
            made.add(value, numbers)
            if attribute:
                self._attributes[id(holder), attribute] = made
                self._kept.append(holder)
            else:
                running.names[name] = made

    def _returned(self, frame: FrameType, running: _Running, value: object) -> None:
        caller = self._innermost(frame.f_back)
        if caller is not None and (numbers := self._numbers(value)):
            made = self._made(frame.f_code, running.line, "return", self._read(frame))
            made.add(value, numbers)
            self._running[caller].returned.add(made)

    def _numbers(self, value: object) -> list[np.ndarray]:
        """Return `numbers_of` a value, which costs steps: a list that grows is read again."""
        found = numbers_of(value) if self.steps <= MOST_STEPS else []
        self.steps += sum(array.size for array in found) // _OF_A_STEP
        return found

    def _made(self, code: CodeType, line: int, name: str, given: set[Made]) -> Made:
        """Return what a line makes of a name, which is made of what is given, too."""
        made = self.made.setdefault((code, line, name), Made(code.co_filename, line, code.co_name))
        made.given |= given - {made}
        return made


@dataclass(frozen=True)
class _Statement:
    """The names that a statement reads and those that it writes: `x`, or `self.x`."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    body: range = range(0)  # of a loop, its lines


_NOTHING = _Statement()


@lru_cache(maxsize=64)
def _statements(file: str) -> dict[int, _Statement]:
    """Line -> the statement that stands there."""
    try:
        with ONE_SYNTAX_TREE:
            tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, _Statement] = {}
    for node in ast.walk(tree):  # the outer ones first
        if not isinstance(node, ast.stmt):
            continue
        heads = _HEADS.get(type(node))
        if heads is None and hasattr(node, "body"):
            continue
        parts = [getattr(node, name) for name in heads] if heads else [node]
        parts = [one for part in parts for one in (part if isinstance(part, list) else [part])]
        statement = _statement_of(parts)
        if isinstance(node, ast.For):
            body = range(node.body[0].lineno, node.body[-1].end_lineno + 1)
            statement = replace(statement, body=body)
        last = max((one.end_lineno for one in parts if hasattr(one, "end_lineno")), default=0)
        for line in range(node.lineno, max(last, node.lineno) + 1):
            found[line] = statement
    return found


def _statement_of(parts: Iterable[ast.AST]) -> _Statement:
    nodes = [node for part in parts for node in ast.walk(part)]
    reads, writes = [], []
    for node in nodes:
        name = _name_of(node)
        if name and isinstance(node.ctx, ast.Load):
            reads.append(name)
        elif name:
            writes.append(name)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            writes.append(_name_of(node.value))
        if isinstance(node, ast.AugAssign):
            reads.append(_name_of(node.target))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func  # rows.append(…)
            writes.append(_name_of(function.value) if isinstance(function, ast.Attribute) else "")
    return _Statement(tuple(filter(None, reads)), tuple(dict.fromkeys(filter(None, writes))))


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return f"{node.value.id}.{node.attr}" if is_own else ""


def numbers_of(value: object) -> list[np.ndarray]:
    """Return the numbers of a plain value: a number, a list of such, arrays; none of another."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return [np.array(value, np.float64)] if abs(value) < _LARGEST else []
    if isinstance(value, np.ndarray):
        is_plain = value.dtype.kind in "biuf" and 0 < value.size <= MOST_NUMBERS
        return [value.copy()] if is_plain else []
    first = value
    while isinstance(first, list | tuple) and 0 < len(first) <= MOST_NUMBERS:
        first = first[0]
    if first is value:
        return []
    if isinstance(first, np.ndarray):
        return [array for one in value for array in numbers_of(one)]
    if not isinstance(first, bool | int | float | np.number):
        return []
    try:
        found = np.array(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        return []  # ragged, or of other things too
    return [found] if found.size <= MOST_NUMBERS else []


def _is_last(made: Made, numbers: list[np.ndarray]) -> bool:
    last = made.values[-len(numbers) :]
    return len(last) == len(numbers) and all(map(np.array_equal, last, numbers))
