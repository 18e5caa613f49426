"""What is proposed, as the lines of a case.py.  NumPy only."""

import re
from collections.abc import Iterator, Mapping
from itertools import product

from twincheck.extras.new_pair.assignment import alike, grouped
from twincheck.extras.new_pair.recipes import HELPERS

# A text, or the number of one of a stack: what layers and experts of a kind differ in.
_TEXT = re.compile(r'(f?)"([^"]*)"|(?<=\])\[(\d+)\]')
_WIDTH = 96
_DOCSTRING = "Weights that lie otherwise in Paddle, under Paddle's names."


def convert_source(recipes: Mapping[str, str]) -> str:
    """A function `convert(state)` that makes these Paddle entries; layers of a kind in one loop."""
    if not recipes:
        return ""
    lines = ["def convert(state):", f'    """{_DOCSTRING}"""', "    made = {}"]
    statements = [f'made["{key}"] = {recipe}' for key, recipe in recipes.items()]
    blocks = grouped(folded(statements), lambda block: tuple(block[0]))
    for loops, bodies in blocks.items():
        indent = "    "
        for name, numbers in loops:
            lines.append(f"{indent}for {name} in {numbers}:")
            indent += "    "
        for _, body in bodies:
            lines += _statement(body, indent)
    text = "\n".join([*lines, "    return made"]) + "\n"
    helpers = [helper for call, helper in HELPERS.items() if re.search(rf"[ \[(]{call}\(", text)]
    return "\n\n".join([*helpers, text])


def _statement(body: str, indent: str) -> list[str]:
    """An assignment, in as many lines as it takes."""
    if len(indent + body) <= _WIDTH:
        return [indent + body]
    target, _, code = body.partition(" = ")
    return [f"{indent}{target} = (", *_wrapped(code, indent + "    "), f"{indent})"]


def rename_source(rename: Mapping[str, str]) -> str:
    """RENAME = {...}; names of a kind in one line."""
    if not rename:
        return "RENAME = {}\n"
    lines = ["RENAME = {"]
    for loops, body in folded([f'"{mine}": "{its}"' for mine, its in rename.items()]):
        every = [f"for {name} in {numbers}" for name, numbers in loops]
        line = f"    **{{{' '.join([body, *every])}}}," if loops else f"    {body},"
        if len(line) <= _WIDTH or not loops:
            lines.append(line)
        else:
            lines += ["    **{", *(f"        {part}" for part in [body, *every]), "    },"]
    return "\n".join([*lines, "}"]) + "\n"


def folded(statements: list[str]) -> Iterator[tuple[list[tuple[str, str]], str]]:
    """(loops, statement): statements that differ in numbers inside their texts, as loops over them.

    A loop is (name, what it runs over, as source).
    """
    kinds = grouped(statements, lambda one: _TEXT.sub(lambda text: alike(text[0]), one))
    for same in kinds.values():
        found = _loops(same) if len(same) > 1 else None
        yield from [found] if found else (([], statement) for statement in same)


def _numbers(statement: str) -> list[int]:
    """Return the numbers inside a statement's texts."""
    return [int(n) for text in _TEXT.finditer(statement) for n in re.findall(r"\d+", text[0])]


def _loops(same: list[str]) -> tuple[list[tuple[str, str]], str] | None:
    """Loops that give just these statements; None where there are none so plain."""
    rows = [_numbers(statement) for statement in same]
    columns = list(zip(*rows, strict=True))
    variables = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    if len(variables) > 2:
        return None
    written = ["ij"[variables.index(c)] if c in variables else None for c in columns]
    ranges = [sorted(set(column)) for column in variables]
    if any(numbers != list(range(numbers[0], numbers[-1] + 1)) for numbers in ranges):
        return None
    if sorted(zip(*variables, strict=True)) != sorted(product(*ranges)):
        return None
    starts = [f"{numbers[0]}, " if numbers[0] else "" for numbers in ranges]
    loops = [
        (name, f"range({start}{numbers[-1] + 1})")
        for name, start, numbers in zip("ij", starts, ranges, strict=False)
    ]
    place = iter(written)

    def text(found):
        if found[3]:
            return f"[{next(place) or found[3]}]"
        changed = re.sub(r"\d+", lambda n: f"{{{w}}}" if (w := next(place)) else n[0], found[2])
        return f'f"{changed}"' if changed != found[2] else found[0]

    return loops, _TEXT.sub(text, same[0])


def _wrapped(code: str, indent: str) -> list[str]:
    """A long expression, one part of its first list a line."""
    start = code.find("([") + 1
    if len(indent + code) <= _WIDTH or not start:
        return [indent + code]
    parts, depth, begun = [], 0, start + 1
    for i, sign in enumerate(code[start:], start):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 or (depth == 1 and sign == ","):
            parts.append(code[begun:i].strip())
            begun = i + 1
        if depth == 0:
            break
    inner = [f"{indent}    {part}," for part in parts]
    return [indent + code[: start + 1], *inner, indent + code[i:]]
