"""What the pages for people say that a machine can check: links, paths, commands, options."""

import ast
import io
import re
import shlex
import subprocess
import tokenize
from functools import cache
from itertools import product
from pathlib import Path

from checkout import ROOT, Checkout

README = ROOT / "README.md"
README_CN = ROOT / "README_cn.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
CHINESE = sorted((ROOT / "docs" / "zh").glob("*.md"))
STEPS = sorted(ROOT.glob("step*/README.md"))
PAGES = [
    README,
    README_CN,
    *DOCS,
    *CHINESE,
    *STEPS,
    *sorted(ROOT.glob("step*/README_cn.md")),
    ROOT / "common" / "README.md",
    ROOT / "extras" / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    *sorted(ROOT.glob("examples/*/README.md")),
]
ROOMS = sorted(path.name for path in (ROOT / "common").iterdir() if (path / "__init__.py").exists())

_TOP = r"common|extras|tests|tools|faults|docs|pics|examples|fake_data|step(?:\d_\w+|\*)"
_NAME = r"(?:[^\s`'\"()\[\]{},;|<>]|\{[^}\s]*\})*"
_PATH = re.compile(rf"(?<![\w/.…-])((?:{_TOP}|{'|'.join(ROOMS)})/{_NAME})")
_STANDS_FOR_ANY = re.compile(r"[A-Z_]+(\.(?!md)\w+)?")  # MODEL, CASE.npz; not README.md
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def blocks(text: str, language: str | None = None) -> list[str]:
    """The lines of every fenced block, a continued line as one; of one language, or of all."""
    found = [body for name, body in _FENCE.findall(text) if language in (None, name)]
    joined = "\n".join(found).replace("\\\n", " ")
    return [line.split(" #")[0].strip() for line in joined.splitlines()]


def code_spans(text: str) -> list[str]:
    """Every `span` of code in the prose, on one line."""
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def run_commands(text: str) -> list[str]:
    """The commands that the tests run: the lines of every ```sh block."""
    return [line for line in blocks(text, "sh") if line]


def dead_links(page: Path, text: str) -> list[str]:
    """The links of a page to a file, or to a heading of one, that is not there."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or anchor and anchor not in anchors(target.read_text()):
            found.append(link)
    return found


def anchors(text: str) -> list[str]:
    """Return what GitHub calls a page's headings in links."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def dead_paths(text: str) -> list[str]:
    """The paths of the checkout that a page names and that are not there."""
    return [path for path, files in _named(text) if not files]


def _named(text: str) -> list[tuple[str, list[Path]]]:
    """Each path that a page names, with what is there of it.

    A path that begins with a room is one of common/.  What a run leaves (log/) and what stands for
    any name (MODEL, a word with …) is not looked for; {torch,paddle} names both, * any.
    """
    text = re.sub(r"\]\([^)]*\)", "]", text)  # links are checked by themselves
    found = []
    for path in _PATH.findall(text):
        path = re.sub(r":[\w:]+$", "", path).rstrip(".:")  # file:line, file.py:Class, a test's name
        parts = path.split("/")
        if "log" in parts or "…" in path or any(map(_STANDS_FOR_ANY.fullmatch, parts)):
            continue
        base = ROOT / "common" if parts[0] in ROOMS else ROOT
        found += [(each, sorted(base.glob(each.rstrip("/")))) for each in spelled_out(path)]
    return found


def prose_of(source: str) -> str:
    """The docstrings and comments of a Python file."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, holders)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([ast.get_docstring(node) or "" for node in nodes] + comments)


def spelled_out(path: str) -> list[str]:
    """`a/{b,c}` as a/b and a/c."""
    parts = re.split(r"\{([^}]*)\}", path)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(each) for each in product(*choices)]


def commands(text: str) -> list[list[str]]:
    """Every `python …` and `twincheck …` command of a page, in a block or in the prose, as words.

    Those with a shell's variables are left out, and so are one-liners (-c) and other packages.
    """
    found = []
    for line in blocks(text) + code_spans(text):
        wanted = re.search(r"python|twincheck", line) and "$" not in line
        words = shlex.split(line.replace("'", "’")) if wanted else []
        while words and "=" in words[0]:  # VARIABLE=… before a command
            words = words[1:]
        program = Path(words[0]).name if len(words) > 1 and "-c" not in words else ""
        if program == "twincheck":
            found.append(["-m", *words])
        if program != "python":
            continue
        if words[1] != "-m" or Path(words[2].split(".")[0]).is_dir():
            found.append(words[1:])
    return found


def wrong_options(command: list[str]) -> list[str]:
    """The options of a command that its own --help does not list; the file itself, if missing."""
    module = command[0] == "-m"
    program = command[1] if module else command[0]
    if Path(program).name == "twincheck":
        return _wrong_of_the_door(command[2:])
    path = ROOT / (program.replace(".", "/") + ".py" if module else program)
    if not path.is_file() and not (path.with_suffix("") / "__main__.py").is_file():
        return [program]
    given = set(_OPTION.findall(" ".join(command[2 if module else 1 :])))
    return sorted(given - options_of("-m" if module else "", program)) if given else []


def _wrong_of_the_door(words: list[str]) -> list[str]:
    """List the options that --help of `twincheck COMMAND` lacks."""
    if words[0].startswith("-"):
        return []
    given = set(_OPTION.findall(" ".join(words[1:])))
    program = ("twincheck", words[0])
    if "usage" not in _help_of("-m", *program):
        return [words[0]]
    return sorted(given - options_of("-m", *program))


@cache
def options_of(flag: str, *program: str) -> set[str]:
    """The options that a program's --help lists; none where it has no help."""
    return set(_OPTION.findall(_help_of(flag, *program)))


@cache
def _help_of(flag: str, *program: str) -> str:
    command = [*Checkout.interpreter, "-W", "ignore", *filter(None, [flag]), *program, "--help"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
