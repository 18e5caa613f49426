"""Edits that build a layer of the port with the settings that the reference's has.

Standard library only.
"""

import ast
import math
from collections.abc import Iterator, Sequence

from twincheck.common.logs.sidecar import setting_text
from twincheck.extras.mend.edits import Edit, Source, joined

# A setting's name in a red check -> Paddle's keyword, where it is another.
KEYWORDS = {"rate": "p", "number of groups": "num_groups", "tanh form": "approximate"}
NO_BUILDING = ("isinstance", "issubclass")
Setting = tuple[str, float, float]  # its name, torch's value, Paddle's, as a red check has them


def of_settings(source: Source, layer: str, settings: Sequence[Setting]) -> Iterator[Edit]:
    """Yield the edits that give a layer the reference's settings, those of most places first.

    Its class is named where it is called, in a `partial`, or where it is handed on; elsewhere a
    number may be the port's setting, if it is none of the whole ones, which are everywhere.
    """
    told = [(_keyword(name), _literal(name, a), _literal(name, b)) for name, a, b in settings]
    for some in dict.fromkeys([tuple(told), *((one,) for one in told)]):
        for change in (_left_out, _named):
            named = [change(source, node, some) for node in _names(source, layer)]
            yield from _all_and_each([edit for edit in named if edit], source)
    for _, theirs, ours in told:
        rare = _is_number(ours) and not ours.isdigit()
        same = [one for one in ast.walk(source.tree) if rare and _is(one, ours)]
        spans = [Edit(*source.span(one), theirs.encode(), "setting") for one in same]
        yield from _all_and_each(spans, source)


def _all_and_each(edits: list[Edit], source: Source) -> Iterator[Edit]:
    if len(edits) > 1:
        yield joined(edits, source.text)
    yield from edits


def _keyword(name: str) -> str:
    return KEYWORDS.get(name, name.replace(" ", "_"))


def _literal(name: str, value: float) -> str:
    """A setting's value as Paddle's layer takes it."""
    text = setting_text(name, value)
    if name == "tanh form":
        return str(text == "on")
    if not _is_number(text):
        return repr(text)
    value = float(f"{1 - value if name == 'momentum' else value:.12g}")
    return str(int(value)) if value.is_integer() else repr(value)


def _is_number(text: str) -> bool:
    return text[:1].isdigit()


def _is(node: ast.AST, literal: str) -> bool:
    """Return whether a node is a constant of the value that `literal` writes."""
    value, wanted = getattr(node, "value", None), ast.literal_eval(literal)
    if not isinstance(node, ast.Constant) or isinstance(value, bool) != isinstance(wanted, bool):
        return False
    numbers = isinstance(value, int | float) and isinstance(wanted, int | float)
    return math.isclose(value, wanted) if numbers else value == wanted


def _last_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _names(source: Source, layer: str) -> Iterator[ast.Call | ast.expr]:
    """Yield each call that builds a class, or will by a `partial`, and what hands it on."""
    parents = {c: p for p in ast.walk(source.tree) for c in ast.iter_child_nodes(p)}
    imported = (alias for one in parents if isinstance(one, ast.ImportFrom) for alias in one.names)
    known = {layer, *(one.asname for one in imported if one.name == layer)}
    for node, parent in parents.items():
        if _last_name(node) not in known or not isinstance(node, ast.Name | ast.Attribute):
            continue
        called = _last_name(parent.func) if isinstance(parent, ast.Call) else ""
        if isinstance(parent, ast.Call) and parent.func is node:
            yield parent
        elif called == "partial" and parent.args[:1] == [node]:
            yield parent
        elif called not in NO_BUILDING and not isinstance(parent, ast.ClassDef):
            yield node


def _left_out(
    source: Source, node: ast.expr, settings: Sequence[tuple[str, str, str]]
) -> Edit | None:
    """The edit by which one of these builds with the defaults; None where it names no setting."""
    names, parts, items = {name for name, _, _ in settings}, [], []
    if isinstance(node, ast.Call):
        items = sorted([*node.args, *node.keywords], key=source.span)
    for i, one in enumerate(items):
        if getattr(one, "arg", None) in names and (i or len(items) == 1):
            start, end = source.span(one)
            parts.append(Edit(source.span(items[i - 1])[1] if i else start, end, b"", "setting"))
    return joined(parts, source.text) if parts else None


def _named(source: Source, node: ast.expr, settings: Sequence[tuple[str, str, str]]) -> Edit | None:
    """The edit by which one of these builds with the settings; None where it does already."""
    if not isinstance(node, ast.Call):
        words = ", ".join(f"{name}={theirs}" for name, theirs, _ in settings)
        function = f"lambda *args, **more: {source.of(node)}(*args, {words}, **more)"
        return Edit(*source.span(node), f"({function})".encode(), "setting")
    own = {one.arg: one.value for one in node.keywords}
    items = [*node.args, *node.keywords]
    end = max((source.span(one)[1] for one in items), default=source.span(node)[1] - 1)
    parts, more = [], ""
    for name, theirs, ours in settings:
        given = own.get(name) or next((one for one in node.args if _is(one, ours)), None)
        if given is None:
            more += f"{', ' if items or more else ''}{name}={theirs}"
        elif source.of(given) != theirs:
            parts.append(Edit(*source.span(given), theirs.encode(), "setting"))
    parts += [Edit(end, end, more.encode(), "setting")] if more else []
    return joined(parts, source.text) if parts else None
