"""Where the modules of a live model are built: found in the source of the class that holds each.

The files of a pair are watched while they build a model (common/sides/places.py).  One that is
there already was built before; but a class says in its text which line makes its `self.norm`.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache

MADE_AT = "_built_at"  # as common/sides/places.py keeps it


def note_lines(model) -> None:
    """Have every module below a model know the line that builds it, where its source says so."""
    pending = [(model, "")]
    seen = {id(model)}
    while pending:
        owner, its_line = pending.pop()
        children = getattr(owner, "_modules", None) or getattr(owner, "_sub_layers", {})
        lines = lines_of(type(owner))
        for name, module in children.items():
            if module is None or id(module) in seen:
                continue
            seen.add(id(module))
            # What a list or a sequence holds is built where that is.
            line = lines.get(name) or (its_line if name.isdecimal() else "")
            if line:
                vars(module)[MADE_AT] = [(line, {})]
            pending.append((module, line))


@cache
def lines_of(kind: type) -> dict[str, str]:
    """Attribute -> file:line of `self.ATTRIBUTE = …` in a class and those that it derives from."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in ("torch", "paddle", "builtins"):
            continue
        # Of each function by itself: a class that a notebook's cell defines has no source.
        for function in vars(base).values():
            if inspect.isfunction(function):
                for name, line in _assigned(inspect.unwrap(function)):
                    found.setdefault(name, line)
    return found


def _assigned(function) -> Iterator[tuple[str, str]]:
    """(ATTRIBUTE, file:line) of each `self.ATTRIBUTE = …` in a function."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # made by exec, say
        return
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", 0)]
        for target in targets if isinstance(node, ast.Assign | ast.AnnAssign) else ():
            if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self":
                yield target.attr, f"{function.__code__.co_filename}:{first + node.lineno - 1}"
