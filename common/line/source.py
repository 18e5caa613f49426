"""The line of a port's source where a suspect is wrong: its own, or that of what feeds it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from twincheck.common.line.find import Finder, Suspect, numbers_in
from twincheck.common.line.relations import named_numbers, worst_number
from twincheck.common.logs.trace import Call, Frame
from twincheck.common.system.reasons import Kind, Reason


@dataclass(frozen=True)
class Line:
    """A line that is wrong, the reference's beside it, and what the numbers say of it."""

    places: dict[str, str]  # side -> file:line
    reasons: tuple[str, ...]


def line_of(finder: Finder, suspect: Suspect, right: np.ndarray | None) -> Line:
    """Return the line of a suspect.

    right  the reference's result, where there is one
    """
    place, reasons = _walked(finder, suspect)
    while place == suspect.call.place and finder.is_right_elsewhere(suspect.call):
        suspect = replace(suspect, call=replace(suspect.call, frames=suspect.call.frames[1:]))
        place = suspect.call.place
    other = suspect.of_reference or (finder.maker_of_right(right) if right is not None else None)
    places = {"torch": other.place, "paddle": place} if other else {"paddle": place}
    if suspect.values is not None:
        reasons += worst_number(*suspect.values)
    if place != suspect.call.place:
        reasons.append(Kind.LINE_FEEDS(place=Path(suspect.call.place).name))
    return Line(places, tuple(filter(None, [suspect.how, *reasons])))


def _walked(finder: Finder, suspect: Suspect) -> tuple[str, list[str]]:
    """Return the line that feeds a suspect with what is wrong, or its own; and what is said."""
    call, like = suspect.call, suspect.of_reference
    if call.built and not suspect.is_known and all(map(finder.partners, call.given)):
        return call.built, [Kind.LINE_BUILT()]
    for name, number, other in _named_otherwise(call, like):
        function = _function_at(_tree(call.frames[0].file), call.frames[0].line, name=None)
        place = function and _maker_of_name(name, number, function, call.frames[0], call.frames, 0)
        return place or call.place, [Kind.LINE_NUMBER(name=name, paddle=number, torch=other)]
    if isinstance(suspect.how, Reason) and suspect.how.kind is Kind.LINE_SCALED:
        before = [(finder.maker(v), finder.is_fine(v)) for v in call.given]
        numbers = (
            one
            for one, is_fine in before
            if one and (finder.strange_numbers(one) if is_fine else numbers_in(one))
        )
        call = next(numbers, call)
    strange = finder.strange_numbers(call, like)
    if not strange and suspect.how:
        strange = [(number, None) for number in numbers_in(call)]
    for number, other in strange[:1]:
        place = _maker_of(number, call.frames)
        said = [Kind.LINE_OPTION(operator=call.name, paddle=number, torch=other)] if other else []
        return place or call.place, said
    for listed in (value for value in call.options.values() if isinstance(value, list)):
        if not call.given and (place := _maker_of(listed, call.frames)):
            return place, []
    return call.place, []


def _named_otherwise(call: Call, like: Call | None) -> list[tuple[str, object, object]]:
    """Return the names in a call's line that the reference's function of that name has otherwise.

    Each with the port's number and the reference's.
    """
    tree = _tree(call.frames[0].file)
    statement = tree and statement_at(tree, call.frames[0].line)
    if like is None or statement is None or not call.frames[0].function:
        return []
    here, there = call.frames[0], like.frames[0]
    if here.function != there.function:
        return []
    used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    differ = named_numbers(here.numbers, there.numbers)
    return [one for one in differ if one[0] in used]


# ---- where a number of a line comes from ---------------------------------------------------------


def _maker_of(number: object, frames: list[Frame], depth: int = 0) -> str:
    """Return the line that made a number which a frame's line uses; empty where it is not seen."""
    if depth > 4 or not frames:
        return ""
    frame = frames[0]
    tree = _tree(frame.file)
    function = _function_at(tree, frame.line, frame.function) if tree else None
    statement = statement_at(function or tree, frame.line) if tree else None
    if statement is None:
        return ""
    if any(_literal(node) == number for node in ast.walk(statement)):
        return ""  # it stands in the line
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and frame.numbers.get(node.id) == number and function:
            return _maker_of_name(node.id, number, function, frame, frames, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if frame.numbers.get(f"{node.value.id}.{node.attr}") == number:
                return _assigned(tree, node.attr, number, frame)
    for node in ast.walk(statement):  # a constant of the file
        if isinstance(node, ast.Name) and node.id not in frame.numbers:
            for assigned in tree.body:
                if _assigns(assigned, node.id) and _value(assigned) == number:
                    return f"{frame.file}:{assigned.lineno}"
    return ""


def _maker_of_name(
    name: str, number: object, function: ast.AST, frame: Frame, frames: list[Frame], depth: int
) -> str:
    """Return the line that gave a name its number: an assignment, the call, or its default."""
    before = [
        node for node in ast.walk(function) if _assigns(node, name) and node.lineno < frame.line
    ]
    if before:
        return f"{frame.file}:{max(node.lineno for node in before)}"
    defaults = dict(_defaults(function))
    passed = frames[1:] and _passes(frames[1], function, name)
    if passed:
        return _maker_of(number, frames[1:], depth + 1) or frames[1].place
    return f"{frame.file}:{defaults[name].lineno}" if name in defaults else ""


def _passes(caller: Frame, function: ast.AST, name: str) -> bool:
    """Return whether a caller's line hands a function its argument of a name."""
    tree = _tree(caller.file)
    statement = tree and statement_at(tree, caller.line)
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    for node in ast.walk(statement) if statement else ():
        called = isinstance(node, ast.Call) and _name_of(node.func)
        if called and (called == function.name or function.name in ("forward", "__init__")):
            if any(keyword.arg == name for keyword in node.keywords):
                return True
            skipped = names[1:] if names[:1] == ["self"] else names
            if name in skipped[: len(node.args)]:
                return True
    return False


def _assigned(tree: ast.Module, attribute: str, number: object, frame: Frame) -> str:
    """Return the line of the class around a frame that sets an attribute of self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.lineno <= frame.line <= node.end_lineno:
            for inner in ast.walk(node):
                targets = getattr(inner, "targets", [getattr(inner, "target", None)])
                for target in targets if isinstance(inner, ast.Assign | ast.AnnAssign) else ():
                    for one, value in _pairs(target, inner.value):
                        if isinstance(one, ast.Attribute) and one.attr == attribute:
                            line = _default_of(node, value, number) or inner.lineno
                            return f"{frame.file}:{line}"
    return ""


def _pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Give each of an assignment's targets with what it gets."""
    if isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for one, its in zip(target.elts, value.elts if same else target.elts, strict=True):
            yield from _pairs(one, its if same else value)
    else:
        yield target, value


def _default_of(holder: ast.ClassDef, value: ast.AST, number: object) -> int | None:
    """Return the line of the default that an assignment in a constructor hands on, if it does."""
    function = _function_at(holder, value.lineno, None) if isinstance(value, ast.Name) else None
    if function is None:
        return None
    given = dict(_defaults(function)).get(value.id)
    return given.lineno if given is not None and _literal(given) == number else None


def _assigns(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(
            isinstance(n, ast.Name) and n.id == name for t in node.targets for n in ast.walk(t)
        )
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return False


def _defaults(function: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    yield from ((a.arg, d) for a, d in zip(named[::-1], arguments.defaults[::-1], strict=False))
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from ((a.arg, d) for a, d in pairs if d is not None)


def _literal(node: ast.AST) -> object:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(node.operand)
        return None if inner is None else -inner
    value = getattr(node, "value", None)
    return value if type(value) in (int, float) else None


def _value(node: ast.AST) -> object:
    try:
        return ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError):
        return None


def _name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def _function_at(tree: ast.Module, line: int, name: str | None) -> ast.AST | None:
    """Return the innermost function around a line; None for any name."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and name in (None, node.name)
        and node.lineno <= line <= node.end_lineno
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def statement_at(tree: ast.AST, line: int) -> ast.AST | None:
    """Return the smallest statement around a line."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line)
    ]
    return min(around, key=lambda node: node.end_lineno - node.lineno, default=None)
