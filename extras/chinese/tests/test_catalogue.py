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
TEMPLATES = [ROOT / "common/report/page/report.html.j2", ROOT / "extras/compared/page.html.j2"]
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
# The same, with the sentences of their errors too.
SPEAKING_IN_ERRORS = """
    extras/bench/command.py extras/bench/comparisons.py extras/bench/page.py
    extras/bench/programs.py extras/bench/turns.py
    extras/bundle/again.py extras/bundle/command.py extras/bundle/plan.py extras/bundle/results.py
    extras/bundle/rows.py extras/bundle/submission.py extras/bundle/verification.py
    extras/bundle/verify.py extras/bundle/write.py
    extras/compared/command.py extras/compared/compare.py extras/compared/document.py
    extras/compared/page.py extras/compared/read.py extras/compared/show.py
    extras/compared/surroundings.py extras/compared/words.py
    extras/doctor/command.py extras/doctor/frameworks.py extras/doctor/machine.py
    extras/doctor/pythons.py extras/doctor/sentences.py extras/doctor/tried.py
    extras/live/calls.py extras/live/cells.py extras/live/client.py extras/live/command.py
    extras/live/copies.py extras/live/forked.py extras/live/held.py extras/live/lines.py
    extras/live/pairs.py extras/live/plugin.py extras/live/reference.py extras/live/result.py
    extras/live/serve.py extras/many/command.py
    extras/new_pair/align.py extras/new_pair/assignment.py extras/new_pair/command.py
    extras/new_pair/described.py extras/new_pair/inputs.py extras/new_pair/library.py
    extras/new_pair/loader.py extras/new_pair/loss.py extras/new_pair/merge.py
    extras/new_pair/outputs.py extras/new_pair/own_files.py extras/new_pair/paconvert.py
    extras/new_pair/pair.py extras/new_pair/proofs.py extras/new_pair/propose.py
    extras/new_pair/recipes.py extras/new_pair/record.py extras/new_pair/remarks.py
    extras/new_pair/rename.py extras/new_pair/search.py extras/new_pair/side_structure.py
    extras/new_pair/source.py extras/new_pair/spec.py extras/new_pair/structure.py
    extras/new_pair/thin.py extras/new_pair/torch_sources.py extras/new_pair/trials.py
    extras/programs/document.py extras/programs/edits.py
""".split()
# Files whose strings are another text, which is English everywhere; their errors are held.
OTHER_TEXT = {
    "extras/bench/comparisons.py": "rows of docs/performance.md",
    "extras/bench/page.py": "the generated parts of docs/performance.md",
    "extras/new_pair/loader.py": "lines of a pair's files, which are the user's source",
    "extras/new_pair/recipes.py": "the same",
    "extras/new_pair/source.py": "the same",
    "extras/new_pair/thin.py": "the same",
}
# A string that is code, a pattern or markup: a line of it begins as one of Python does.
CODE = re.compile(
    r"(?m)^\^?(?:import|from) [\w.]+|^def \w+\(|\(\?P<|\\S\+|\.\*\)|\.astype\(|</?(?:td|a)[ >]"
)
# What is in these sources and is no sentence of a result: options, --help, a part of an error's.
NO_SENTENCE = {
    "preset device dtype autocast seed weights case mode torch-python paddle-python out",
    r"\w+ was not checked.*",
    "that train each side together, on all machines, 1 by default: --processes 4",
    "without --probe and --no-probe",
    "is a log of an earlier version",
    "attention grad 003",
    "use strict",
    # Of other programs: a message of torchvision's, names of packages and of classes.
    "operator torchvision::nms does not exist",
    "torch torchvision torchaudio transformers diffusers accelerate datasets timm kornia mmcv "
    "mmseg mmdet mmdet3d mmengine detectron fasttext lightning pytorch_lightning fairscale "
    "flash_attn torch_xla",
    "numpy scipy pandas sklearn matplotlib PIL tqdm packaging einops einx safetensors "
    "huggingface_hub typing_extensions",
    "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU ReLU6",
    "SELU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink",
    # Comments that a generated file gets.
    "Empty: nothing of it is used by what was translated",
    "was below other lines",
    "PaConvert translates its uses and drops this import",
    # What programs read in a bundle's files: why a row's tensors are inside, or not.
    "largest of its kind",
    "its verdict depends on more than its tensors",
    "a side has no such tensor",
    "its tensors have",
    "bytes: there is no room",
    # A setting's name, as findings have it; a program's, which another program starts.
    "number of groups",
    "error: a request's path is needed",
}
# Fields, further sentences, commands.
BETWEEN = re.compile(r"\{\w*(?::[^}]*)?\}|[{}]|\n|; | · |(?<![\w-])python (?:-m )?[\w./]+")
STYLED = {"told", *re.findall(r"\.([a-z-]+)", (ROOT / "common/report/page/style.css").read_text())}


@cache
def msgids() -> tuple[str, ...]:
    """Every English message, its fields as one letter that is in none."""
    return tuple(FIELD.sub("\0", text) for entry in ENTRIES for text in entry.english)


def without(pieces: Iterable[str]) -> list[str]:
    """Those pieces of sentences that no message holds."""
    known = " ".join("\1".join(msgids()).split()).casefold()
    cut = (" ".join(piece.split()).strip(" ,;:.()#·—") for piece in pieces)
    left = (piece for piece in cut if piece not in NO_SENTENCE)
    return list(dict.fromkeys(piece for piece in left if piece.casefold() not in known))


# ---- what the sources say ------------------------------------------------------------------------


def of_python(source: str, errors: bool = False, others: bool = True) -> Iterator[str]:
    """The pieces of three words and more between the fields of a file's strings.

    But for its docstrings.

    errors   the sentences of errors, which are of what a user typed, too
    others   what is none
    """
    tree = ast.parse(source)
    passed, raised = set(), set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr):
            passed.add(first.value)
        if isinstance(node, ast.Raise):
            raised.update(ast.walk(node))
    asked = {True: errors, False: others}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed:
            if not asked[node in raised] or CODE.search(node.value):
                continue
            for piece in BETWEEN.split(node.value):
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
    said = list(of_python('raise E("all of this is an error")\nx = f"{a} is not what was put in"'))
    assert [one.strip() for one in said] == ["is not what was put in"]
    both = list(of_python('raise E("all of this is an error")\nx = "it is not an error"', True))
    assert sorted(both) == ["all of this is an error", "it is not an error"]
    assert list(of_python('raise E("all of this is")\nx = "it is not so"', True, False)) == [
        "all of this is"
    ]
    shown = list(
        of_template("<p>All of that{{ 'these' if a else 'others' }}</p><i aria-label=\"Parts\">")
    )
    assert {"All of that", "these", "others", "Parts"} <= set(shown)
    drawn = list(
        of_script("const a = `${n} rows, ${m} further ones`; // a remark\nb('x y', \"side none\")")
    )
    assert [one.strip(" ,") for one in drawn] == ["further ones"]


@pytest.mark.parametrize("path", SPEAKING)
def test_every_sentence_of_a_source_has_chinese(path):
    pieces = list(of_python((ROOT / path).read_text(encoding="utf-8")))
    assert without(pieces) == []
    assert without([*pieces, "a sentence that is new here"]) == ["a sentence that is new here"]


@pytest.mark.parametrize("path", SPEAKING_IN_ERRORS)
def test_every_sentence_of_a_source_and_of_its_errors_has_chinese(path):
    source = (ROOT / path).read_text(encoding="utf-8")
    assert without(of_python(source, errors=True, others=path not in OTHER_TEXT)) == []
    assert without(of_python('raise E(f"{x}: an error that is new")', errors=True))


def test_every_text_of_the_page_has_chinese():
    for template in TEMPLATES:
        assert without(of_template(template.read_text(encoding="utf-8"))) == []
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
