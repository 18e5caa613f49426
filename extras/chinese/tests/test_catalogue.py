"""The catalogue against the sources: all that they say has Chinese, all that it has they say."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from twincheck.extras.chinese.catalogue import FIELD, Entry, read_po

ROOT = Path(__file__).resolve().parents[3]
PO = ROOT / "extras" / "chinese" / "zh.po"
ENTRIES = tuple(read_po(PO))
PAGE = [ROOT / "common/report/page" / name for name in ("page.js", "tree.js", "charts.js")]
TEMPLATE = ROOT / "common/report/page/report.html.j2"
# What makes sentences of rows, of results and of their page.
SPEAKING = """
    common/check/draws.py common/check/origins.py common/check/result.py
    common/report/acceptance.py common/report/commands.py common/report/findings.py
    common/report/html_charts.py common/report/html_facts.py common/report/html_page.py
    common/report/scores.py common/report/sentences.py common/report/summary.py
    common/report/terminal.py common/verdict/causes.py common/verdict/choices.py
    common/verdict/comparisons.py common/verdict/half.py common/verdict/inside.py
    common/verdict/judge.py common/verdict/row.py common/verdict/settle.py
    common/verdict/tensor.py step4_backward/check_step4.py step4_backward/rates.py
    step5_train/check_step5.py step5_train/envelope.py step5_train/equivalence.py
    step5_train/judge_initial.py
""".split()
# What is in these sources and is no sentence of a result: options, --help, a part of an error's.
NO_SENTENCE = {
    "preset device dtype autocast seed weights case mode torch-python paddle-python out",
    r"\w+ was not checked.*",
    "that train each side together, on all machines, 1 by default: --processes 4",
    "without --probe and --no-probe",
    "is a log of an earlier version",
    "attention grad 003",
    "use strict",
    # the first lines of an exported repository's files, a sentence of its English page
    "Arrays under flat names, nested as a forward takes them",
    "Schedules of the learning rate: step number -> factor",
    "Scores of predictions against labels",
    "what the model and the programs read of them (NumPy",
    "as many samples as it was saved with",
    "row of the file",  # in a picture, whose font has no Chinese
    "AG News: https://huggingface.co/datasets/fancyzhx/ag_news (class,title,description",
    "--dtype bfloat16 --out bf16",
}
# A command, or what is a program's text.
CODE = re.compile(r"python .*|from \S+ import .*|import \w+|def \w+\(.*|.*\\.*|.*\"\"\".*")
# Columns of a pull request's report, whose words have both languages in words.toml.
COLUMNS = set(
    re.findall(r"(?m)^(\w+) = \[", (ROOT / "extras/pr_report/words.toml").read_text("utf-8"))
)
# Folders all of whose sentences have Chinese, those of errors too.
WHOLE = """
    extras/agreement extras/certificate extras/forecast extras/generation extras/pr_report
    extras/publish extras/shared extras/sources extras/trainers
""".split()
# But for what lies in other people's repositories as it is, and what says nothing to anybody.
SILENT = ("extras/publish/programs/", "extras/shared/task.py")
STYLED = {"told", *re.findall(r"\.([a-z-]+)", (ROOT / "common/report/page/style.css").read_text())}


@cache
def msgids() -> tuple[str, ...]:
    """Every English message, its fields as one letter that is in none."""
    return tuple(FIELD.sub("\0", text) for entry in ENTRIES for text in entry.english)


def without(pieces: Iterable[str]) -> list[str]:
    """Those pieces of sentences that no message holds."""
    known = "\1".join(msgids()).casefold()
    cut = (" ".join(piece.split()).strip(" ,;:.()#·—") for piece in pieces)
    left = (piece for piece in cut if piece not in NO_SENTENCE and not CODE.fullmatch(piece))
    left = (piece for piece in left if not COLUMNS.issuperset(piece.split()))
    return list(dict.fromkeys(piece for piece in left if piece.casefold() not in known))


# ---- what the sources say ------------------------------------------------------------------------


def of_python(source: str, errors: bool = False) -> Iterator[str]:
    """The pieces of three words and more between the fields of a file's strings.

    But for its docstrings, and unless `errors` for the sentences of errors.
    """
    tree = ast.parse(source)
    passed = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr):
            passed.add(first.value)
        if isinstance(node, ast.Raise) and not errors:
            passed.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed:
            for piece in re.split(r"\{\w*(?::[^}]*)?\}|\n|; | · ", node.value):
                if len(re.findall(r"[A-Za-z]{2,}", piece)) >= 3 and " " in piece.strip():
                    yield piece


def of_template(source: str) -> Iterator[str]:
    """The texts of the page's template, in pieces between markup and what is put in."""
    text = re.sub(r"(?s)<symbol.*?</symbol>|\{#.*?#\}", "", source)
    labels = re.findall(r"""(?:aria-label|placeholder|title|data-label)="([^"]*)\"""", text)
    text = re.sub(r"<(?:[^<>{}]|\{\{.*?\}\}|\{%.*?%\})+>", "\0", text) + "\0".join(labels)
    chosen = [
        one for put_in in re.findall(r"\{\{.*?\}\}", text) for one in re.findall("'(.*?)'", put_in)
    ]
    pieces = re.split(r"\0|\{%.*?%\}|\{\{.*?\}\}", text) + chosen
    yield from (one for one in pieces if re.search("[a-z]{3,}", one) and one not in STYLED)


def of_script(source: str) -> Iterator[str]:
    """The pieces of two words and more of a script's strings that are no styles' names."""
    source = re.sub(r"(?m)(?<![:\"'`])//.*$", "", source)
    for _, text in re.findall(r"""(["`])((?:(?!\1)[^\\\n]|\\.)*)\1""", source):
        for piece in re.split(r"(?:\b1e)?\$\{(?:[^{}]|\{[^{}]*\})*\}", text):
            words = re.findall(r"[A-Za-z-]{2,}", piece)
            if len(words) > 1 and " " in piece.strip() and not STYLED.issuperset(words):
                if not re.match(r"\s*[#.][a-z]", piece):  # a selector
                    yield piece


def test_the_sources_are_read():
    """What is looked for in them is found, a sentence of each kind of source."""
    source = 'raise E("all of this is an error")\nx = f"{a} is not what was put in"'
    said, all_of_it = (
        sorted(map(str.strip, of_python(source, errors))) for errors in (False, True)
    )
    assert said == ["is not what was put in"]
    assert all_of_it == ["all of this is an error", *said]
    shown = list(
        of_template("<p>All of that{{ 'these' if a else 'others' }}</p><i aria-label=\"Parts\">")
    )
    assert {"All of that", "these", "others", "Parts"} <= set(shown)
    drawn = list(
        of_script("const a = `${n} rows, ${m} further ones`; // a remark\nb('x y', \"side none\")")
    )
    assert [one.strip(" ,") for one in drawn] == ["further ones"]


def in_whole_folders() -> list[str]:
    """The sources in WHOLE."""
    files = (file for folder in WHOLE for file in sorted((ROOT / folder).rglob("*.py")))
    paths = [file.relative_to(ROOT).as_posix() for file in files if "tests" not in file.parts]
    return [path for path in paths if not path.startswith(SILENT)]


@pytest.mark.parametrize("path", [*SPEAKING, *in_whole_folders()])
def test_every_sentence_of_a_source_has_chinese(path):
    errors = path in in_whole_folders()
    pieces = list(of_python((ROOT / path).read_text(encoding="utf-8"), errors))
    assert without(pieces) == []
    assert without([*pieces, "a sentence that is new here"]) == ["a sentence that is new here"]


def test_every_text_of_the_page_has_chinese():
    assert without(of_template(TEMPLATE.read_text(encoding="utf-8"))) == []
    scripts = [piece for path in PAGE for piece in of_script(path.read_text(encoding="utf-8"))]
    assert without(scripts) == []


# ---- the catalogue -------------------------------------------------------------------------------


def test_every_entry_is_whole():
    assert [problem for entry in ENTRIES for problem in problems(entry)] == []


def test_entries_that_are_not_whole_are_found():
    entry = ENTRIES[0]
    assert problems(replace(entry, chinese="")) and problems(replace(entry, english=("a {x}",)))
    assert problems(replace(entry, english=("none of the sources says this",)))
    assert problems(replace(entry, places=())) and problems(replace(entry, places=("gone.py",)))
    assert problems(replace(entry, chinese="逐位相等"))


def problems(entry: Entry) -> list[str]:
    """What is wrong with an entry: no Chinese, other fields, no source that says it."""
    found = []
    fields = sorted(set(FIELD.findall(entry.chinese)))
    for english in entry.english:
        if sorted(set(FIELD.findall(english))) != fields:
            found.append(f"{english}: other fields in Chinese")
        if not says(entry.places, english):
            found.append(f"{english}: not in {', '.join(entry.places) or 'any source'}")
    if entry.chinese.isascii() and re.search("[a-z]", FIELD.sub("", entry.english[0])):
        found.append(f"no Chinese: {entry.chinese!r}")
    if re.search("按位(一致|相等)|逐位(相同|相等)|比特", entry.chinese):
        found.append(f"another word for 逐位一致: {entry.chinese}")
    return found


def says(places: tuple[str, ...], english: str) -> bool:
    """Whether sources have all words of a message, and three in a row of a longer one."""
    sources = [words_of(place) for place in places]
    known = {form for words in sources for word in words for form in (word, f"{word}s")}
    pieces = [
        re.findall(r"[a-z]+", piece) for piece in FIELD.sub("\0", english.casefold()).split("\0")
    ]
    long = (piece for piece in pieces if len(piece) > 3)
    rows = {" ".join(piece[i : i + 3]) for piece in long for i in range(len(piece) - 2)}
    texts = [" ".join(words) for words in sources]
    in_a_row = not rows or any(row in text for row in rows for text in texts)
    return bool(known) and in_a_row and all(word in known for piece in pieces for word in piece)


@cache
def words_of(place: str) -> list[str]:
    """The words of a source, in their order, with strings that go on in the next line as one."""
    path = ROOT / place
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return re.findall("[a-z]+", re.sub(r"""["']\s*\n\s*f?["']""", "", text).casefold())
