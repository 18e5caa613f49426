"""Edits that give a port torch's initial values: another initialiser, or the lines that draw anew.

They come from what the check has found of both sides' distributions.
"""

import ast
from collections.abc import Iterator, Sequence
from textwrap import indent

from twincheck.common.report.recipe import call, recipe
from twincheck.common.verdict.initial import Start
from twincheck.extras.mend.edits import Edit, Source, joined

# Paddle's initialisers, by the family of what they draw.
_OF_FAMILY = {
    "constant": ("Constant",),
    "uniform": ("Uniform", "KaimingUniform", "XavierUniform"),
    "normal": ("Normal", "KaimingNormal", "XavierNormal"),
    "truncated": ("TruncatedNormal",),
}
_NAME = "torch_initial_values"
_FUNCTION = """


def {name}(model):
    \"\"\"Draw as torch does what Paddle's layers begin with otherwise.\"\"\"
    {imports}

"""


def beginnings(
    source: Source, starts: Sequence[Start], root: str, is_pairs_own: bool
) -> Iterator[Edit]:
    """Yield edits of a file of the port, those of one initialiser first.

    root            name of the model's class
    is_pairs_own    it is the pair's file, whose `build` returns the model
    """
    yield from _exchanged(source, starts)
    lines = [line for start in starts for line in recipe(start)]
    if lines:
        yield from _put_in(source, lines, root, is_pairs_own)


def _exchanged(source: Source, starts: Sequence[Start]) -> Iterator[Edit]:
    """torch's initialisers in the place of the port's own: of all that are alike, then of each."""
    found: dict[tuple[str, str], list[Edit]] = {}
    for part in (part for start in starts for part in start.parts):
        names, new = _OF_FAMILY.get(part.paddle.family, ()), call(part.torch)
        for node in ast.walk(source.tree) if new else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                module, _, name = source.of(node.func).rpartition(".")
                text = f"{module}.{new}" if module else new
                if name in names and source.of(node) != text:
                    edit = Edit(*source.span(node), text.encode(), "setting")
                    found.setdefault((source.of(node), text), []).append(edit)
    for alike in map(list, map(dict.fromkeys, found.values())):
        yield joined(alike, source.text)
        yield from alike if len(alike) > 1 else ()


def _put_in(source: Source, lines: Sequence[str], root: str, is_pairs_own: bool) -> Iterator[Edit]:
    """The lines as a function, called where the model is made: by its class, or by `build`."""
    text = source.text.decode()
    name = next(n for i in range(9) if (n := f"{_NAME}_{i}" if i else _NAME) not in text)
    imports = "import paddle\n    from paddle import nn"
    if not any("paddle." in line for line in lines):
        imports = imports.partition("\n")[2].strip()
    function = _FUNCTION.format(name=name, imports=imports) + indent("\n".join(lines), " " * 4)
    end = len(source.text.rstrip())
    made = Edit(end, len(source.text), f"{function}\n".encode(), "structure")
    for holder in source.tree.body:
        if isinstance(holder, ast.ClassDef) and holder.name == root:
            for one in holder.body:
                if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                    at, before = source.span(one)[1], " " * one.body[0].col_offset
                    called = Edit(at, at, f"\n{before}{name}(self)".encode(), "structure")
                    yield joined([called, made], source.text)
        elif isinstance(holder, ast.FunctionDef) and holder.name == "build" and is_pairs_own:
            last = holder.body[-1]
            if isinstance(last, ast.Return) and last.value is not None:
                before = " " * last.col_offset
                new = f"\n{before}".join(
                    [f"model = {source.of(last.value)}", f"{name}(model)", "return model"]
                )
                called = Edit(*source.span(last), new.encode(), "structure")
                yield joined([called, made], source.text)
