"""Sentences stand in report/: no other room that judges, runs, reads or writes logs has one.

    python -m tools.sentences            the English sentences of those rooms, and kinds of the list
                                         of reasons that nothing uses, or that it has not
    python -m tools.sentences ROOT       the same of another checkout
    python -m tools.sentences --write    write docs/reasons.md anew

A string of three words or more, of which one is such as `the`, `is` or `no`, is a sentence; a
docstring and a comment are for who reads the source, and a text that is split where it stands is a
list of names.  Exit status 1 where there is one.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from string import Formatter

from twincheck.common.system.program import Parser

ROOT = Path(__file__).resolve().parent.parent
BEGIN = """# Reasons 原因

Why a row or a result is as it is, and why a check could not be, as `--json` has it: a kind and its
fields, which stand in braces. Written by `python -m tools.sentences --write`.

`--json` 中的原因：一行或一个结果为什么是这样，检查为什么无法进行。花括号内的是字段。
"""
SHOWN_ALONE = ("commands", "page", "report")  # what is shown, and in no JSON
ROOMS = ("verdict", "check", "sides", "logs")
_SAYING = frozenset(
    "a an and are as at be been but by cannot for from give gives has have holds in is it its "
    "leave more no nor nothing of on only or such than that the their them there these they this "
    "those was were what where which who with".split()
)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Return the line and the text of each sentence in a file of Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        if isinstance(node, ast.Attribute) and node.attr == "split":
            skipped.add(id(node.value))
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            skipped.add(id(body[0].value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):  # a key is a name
            skipped.add(id(node.slice))
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            text = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        words = re.findall(r"[A-Za-z']+", text)
        if len(words) >= 3 and " " in text.strip() and _SAYING & set(words):
            yield node.lineno, text


def kinds(root: Path) -> dict[str, str]:
    """Return the list of reasons: kind -> template."""
    found: dict[str, str] = {}
    for path in sorted((root / "common/report/reasons").glob("*.toml")):
        found |= read(path)
    return found


@cache
def read(path: Path) -> dict[str, str]:
    """Return a file of kinds."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def lists(root: Path) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """Return each list of kinds: where it is, its templates, and kind -> a file that names it."""
    owners = {path.parent: read(path) for path in sorted(root.glob("extras/*/reasons.toml"))}
    used: dict[Path, dict[str, str]] = {owner: {} for owner in (root, *owners)}
    for folder in ("common", "extras", "step*", "twincheck"):
        for path in sorted(root.glob(f"{folder}/**/*.*")):
            if path.suffix not in (".py", ".j2", ".js") or "tests" in path.parts:
                continue
            owner = own_list(path, root).parent
            text = path.read_text("utf-8")
            for core, name in re.findall(r"\b(Core)?Kind\.([A-Z][A-Z0-9_]+)\b", text):
                found = used[root if core or owner not in owners else owner]
                found.setdefault(name, str(path.relative_to(root)))
    yield "common/report/reasons", kinds(root), used[root]
    for owner, listed in owners.items():
        yield f"{owner.relative_to(root)}/reasons.toml", listed, used[owner]


def own_list(path: Path, root: Path) -> Path:
    """Return where the list of an extra's own is, of a file in it."""
    return root.joinpath(*path.relative_to(root).parts[:2], "reasons.toml")


def wrong_calls(path: Path, root: Path) -> Iterator[str]:
    """Return a line for each call of a kind whose fields are not those of its template."""
    text = path.read_text(encoding="utf-8")
    if "Kind." not in text:
        return
    own = own_list(path, root)
    listed = read(own) if own.is_file() else kinds(root)
    for node in ast.walk(ast.parse(text)):
        call = node.func if isinstance(node, ast.Call) else None
        if not isinstance(call, ast.Attribute) or ast.unparse(call.value) != "Kind":
            continue
        given = {keyword.arg for keyword in node.keywords} - {None}
        open_ended = any(keyword.arg is None for keyword in node.keywords)
        fields = {name for _, name, _, _ in Formatter().parse(listed.get(call.attr, "")) if name}
        if not given <= fields or not open_ended and given != fields:
            where = f"{path.relative_to(root)}:{node.lineno}"
            yield f"{where}: {call.attr} has the fields {sorted(fields)}, not {sorted(given)}"


def problems(root: Path) -> Iterator[str]:
    """Return a line for each sentence that stands elsewhere, and each kind that is not in order."""
    for room in ROOMS:
        for path in sorted((root / "common" / room).glob("*.py")):
            for line, text in sentences(path):
                yield f"{path.relative_to(root)}:{line}: a sentence outside report/: {text!r}"
    for folder in ("common", "extras", "step*"):
        for path in sorted(root.glob(f"{folder}/**/*.py")):
            yield from () if "tests" in path.parts else wrong_calls(path, root)
    for place, listed, used in lists(root):
        for name in sorted(used.keys() - listed.keys()):
            yield f"{used[name]}: {name} is no kind of {place}"
        for name in sorted(listed.keys() - used.keys()):
            yield f"{place}: nothing gives {name}"


def page(root: Path) -> str:
    """Return docs/reasons.md: the core's list, in English and in Chinese."""
    from twincheck.extras.chinese.spoken import template

    lines = [BEGIN.rstrip()]
    files = sorted((root / "common/report/reasons").glob("*.toml"))
    for path in (path for path in files if path.stem not in SHOWN_ALONE):
        lines += ["", f"## {path.stem}", "| kind 种类 | English | 中文 |", "|---|---|---|"]
        for name, english in read(path).items():
            said = (text.strip().replace("|", "\\|") for text in (english, template(english)))
            cells = (f"`` {text} ``" if "`" in text else f"`{text}`" for text in said)
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--write", action="store_true", help="write docs/reasons.md anew")
    given = parser.parse_args(arguments)
    if given.write:
        (given.root / "docs/reasons.md").write_text(page(given.root), encoding="utf-8")
    found = list(problems(given.root))
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
