"""The lines of a user's own functions that run while code of the pair does; others show nothing.

Heard by `sys.settrace` while a model is built, called or scored: elsewhere it would slow down what
the workbench and the frameworks do in Python.  A function is heard till all its lines have run.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType

from twincheck import HERE
from twincheck.common.sides.places import is_models
from twincheck.common.system.files import ONE_SYNTAX_TREE

_INSTALLED = ("/site-packages/", "/dist-packages/")
# After so many parts, such as a forward, a training in which all lines have run is left alone.
_ENOUGH = 100
# What only tells or refuses computes nothing: nobody misses it.
_TELLS = {"print", "warn", "warning", "warning_once", "info", "debug"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# id of a function's code -> the code, which so keeps its id, and its lines that did not run so far.
_heard: dict[int, tuple[CodeType, set[int]]] = {}
_of_import: dict[int, tuple[CodeType, set[int]]] = {}  # likewise, when the files were imported
_unknown: set[str] = set()  # files of which other code has run than their text has
_quiet = 0  # parts of the pair's code that have run since one of these was called first
_wanted = False  # whether there is a log that says what ran


class _Source:
    """A file's functions, by the code that its text compiles to."""

    def __init__(self, file: str):
        with ONE_SYNTAX_TREE:
            tree = ast.parse(Path(file).read_bytes())
            whole = compile(tree, file, "exec", dont_inherit=True)
        # First line of a function and its name -> the name with those of what it is in.
        self.names: dict[tuple[int, str], str] = {}
        self.counted: set[int] = set()  # lines that count
        self._note(tree, "")
        self.counted -= {line for node in _idle(tree) for line in _lines(node)}
        self.codes = {code for code in _codes_in(whole) if code.co_flags & CO_OPTIMIZED}

    def _note(self, node: ast.AST, holder: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = holder
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                name = f"{holder}.{child.name}" if holder else child.name
            if isinstance(child, _FUNCTIONS):
                first = min(one.lineno for one in (child, *child.decorator_list))
                self.names[first, child.name] = name
                self.counted -= set(_lines(child))  # its own first lines, in one around it
                self.counted.update(range(child.body[0].lineno, child.end_lineno + 1))
            self._note(child, name)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes_in(one)


def _lines(node: ast.AST) -> range:
    return range(node.lineno, node.end_lineno + 1)


def _idle(tree: ast.AST) -> Iterator[ast.AST]:
    """All that need not run: `pass`, what only tells or refuses, and the `if` of nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.msg and node.msg.lineno > node.test.end_lineno:
            yield node.msg
        if isinstance(node, ast.ExceptHandler) and _is_idle(node.body):
            yield node
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            yield from _idle_of(block) if isinstance(block, list) else ()


def _idle_of(block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block that only tell, and what leads to an error at its end."""
    start = len(block)
    while start and isinstance(block[-1], ast.Raise) and not hasattr(block[start - 1], "body"):
        start -= 1
    return [*filter(_only_tells, block[:start]), *block[start:]]


def _is_idle(block: list[ast.stmt]) -> bool:
    return len(_idle_of(block)) == len(block)


def _only_tells(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return _is_idle(node.body) and _is_idle(node.orelse)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        return getattr(called, "attr", getattr(called, "id", "")) in _TELLS
    return isinstance(node, ast.Pass)


@cache
def _source(file: str) -> _Source | None:
    """A file's functions; None where it is none of the user's, or cannot be read."""
    path = file.replace("\\", "/")
    is_others = path.startswith(f"{HERE}/") or any(part in path for part in _INSTALLED)
    try:
        return _Source(file) if is_models(file) and not is_others else None
    except (OSError, SyntaxError, ValueError):
        return None


def _begin(code: CodeType) -> set[int]:
    """The lines of a code that is called for the first time, of those that count."""
    global _quiet
    rest, source = set(), _source(code.co_filename)
    if source is not None and code.co_flags & CO_OPTIMIZED:
        if code not in source.codes:  # compiled by a framework, exchanged, or edited meanwhile
            _unknown.add(code.co_filename)
        rest = {line for *_, line in code.co_lines() if line} & source.counted
        _quiet = 0
    _heard[id(code)] = code, rest
    return rest


def _of_call(frame, event: str, argument: object) -> Callable | None:
    known = _heard.get(id(frame.f_code))
    rest = _begin(frame.f_code) if known is None else known[1]
    return _of_line if rest else None


def _of_line(frame, event: str, argument: object) -> Callable:
    rest = _heard[id(frame.f_code)][1]
    rest.discard(frame.f_lineno)
    frame.f_trace_lines = bool(rest)
    return _of_line


@contextmanager
def heard(imports: bool = False) -> Iterator[None]:
    """Inside, the user's functions are heard; not where somebody else, such as a debugger, hears.

    imports  files are imported, if they are not yet: what runs then counts for each run after it
    """
    global _quiet
    _quiet += 1
    if not _wanted or _quiet > _ENOUGH and not any(rest for _, rest in _heard.values()):
        yield
        return
    before, known = sys.gettrace(), set(_heard)
    if before is not None and before is not _of_call:
        _unknown.add("")
    if before is None:
        sys.settrace(_of_call)
    try:
        yield
    finally:
        if before is None:
            sys.settrace(None)
        if imports:
            _of_import.update((i, (c, set(r))) for i, (c, r) in _heard.items() if i not in known)


def begin(wanted: bool) -> None:
    """Forget what ran, but for what did when files were imported."""
    global _wanted, _quiet
    _wanted, _quiet = wanted, 0
    _unknown.clear()
    _heard.clear()
    _heard.update((key, (code, set(rest))) for key, (code, rest) in _of_import.items())


def forget() -> None:
    """Forget the files too: they will be imported anew."""
    _of_import.clear()
    _source.cache_clear()


def not_run() -> dict[str, dict[str, list[int]]]:
    """File -> function that was called -> its lines that did not run; none where all did."""
    found: dict[str, dict[str, list[int]]] = {}
    for code, rest in _heard.values():
        source, file = _source(code.co_filename), code.co_filename
        name = source and source.names.get((code.co_firstlineno, code.co_name))
        of_case = file.endswith("/case.py") and name != "metric"  # what the inputs are
        if name and _wanted and not of_case and not _unknown & {"", file}:
            former = found.setdefault(file, {}).get(name, rest)
            found[file][name] = sorted(rest.intersection(former))  # imported twice, say
    return found
