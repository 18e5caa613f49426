"""The catalogue against the sources: all that they say has Chinese, all that it has they say."""

import argparse
import ast
import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from twincheck.extras.chinese.catalogue import FIELD, Entry, read_po

pytestmark = pytest.mark.lint

ROOT = Path(__file__).resolve().parents[3]
PO = ROOT / "extras" / "chinese" / "zh.po"
ENTRIES = tuple(read_po(PO))
PAGE = [ROOT / "common/report/page" / name for name in ("page.js", "tree.js", "charts.js")]
TEMPLATES = [ROOT / "common/report/page/report.html.j2", ROOT / "extras/compared/page.html.j2"]
# Files that say nothing in Chinese, each with its reason.
ENGLISH = {
    "common/verdict/tolerances.py": "the README's table of tolerances, which has both languages",
    "common/report/guide_report.py": "a program, and what reprod_log's own report says",
    "common/system/interpreters.py": "a program that another Python runs",
    "fake_data/like_real.py": "words of data",
    "step2_metric/hard_texts.py": "texts for tokenizers",
    "step5_train/curves.py": "a picture, whose fonts have no Chinese",
    "step5_train/training.py": "train.log, in the guide's standard form, which programs read",
    "extras/shared/task.py": "a program that it starts",
    "extras/chinese/markup.py": "markup, and names of kinds",
}
# Files whose strings are another text, which is English everywhere; their errors are held.
OTHER_TEXT = {
    "common/report/recipe.py": "lines of a port, which are the user's source",
    "extras/bench/comparisons.py": "rows of docs/performance.md",
    "extras/bench/page.py": "the generated parts of docs/performance.md",
    "extras/issue/program.py": "lines of a program",
    "extras/mend/settings.py": "words of a port's source",
    "extras/new_pair/loader.py": "lines of a pair's files, which are the user's source",
    "extras/new_pair/recipes.py": "the same",
    "extras/new_pair/source.py": "the same",
    "extras/new_pair/thin.py": "the same",
}
# Held: of what these files say that is for people, all has Chinese.
SPEAKING = [
    path
    for top in "common step* fake_data twincheck extras".split()
    for path in sorted(one.relative_to(ROOT).as_posix() for one in ROOT.glob(f"{top}/**/*.py"))
    if not re.search("common/models/|/tests/|publish/programs/|new_pair/template/", path)
    and path not in ENGLISH
]
# What is in these sources and is no sentence: options, names, lists, patterns, a part of one.
NO_SENTENCE = {
    "preset device dtype autocast seed weights case mode torch-python paddle-python",
    r"\w+ was not checked.*",
    "that train each side together, on all machines, 1 by default: --processes 4",
    "without --probe and --no-probe",
    "attention grad 003",
    "of a blank tensor",  # caught where it is met
    "lp_pool in float32",
    # Lines of a log, which programs read.
    "final_loss: rank=0 val=",
    "gradient: rank=0 step=",
    "Adam of torch",
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
    # the first lines of an exported repository's files, a sentence of its English page
    "Arrays under flat names, nested as a forward takes them",
    "Schedules of the learning rate: step number -> factor",
    "Scores of predictions against labels",
    "what the model and the programs read of them (NumPy",
    "as many samples as it was saved with",
    "row of the file",  # in a picture, whose font has no Chinese
    "AG News: https://huggingface.co/datasets/fancyzhx/ag_news (class,title,description",
    "--dtype bfloat16 --out bf16",
    "--torch-losses FILE --paddle-losses FILE",
}
# A string that is code, a pattern or markup.
CODE = re.compile(
    r"(?m)^\^?(?:import|from) \.?[\w.]+|^def \w+\(|\(\?P<|\\S\+|\.\*\)|\.astype\(|</?(?:td|a)[ >]"
    r"|\\|\"\"\""
)
# Columns of a pull request's report, whose words have both languages in words.toml.
COLUMNS = set(
    re.findall(r"(?m)^(\w+) = \[", (ROOT / "extras/pr_report/words.toml").read_text("utf-8"))
)
# Fields, further sentences, commands.
BETWEEN = re.compile(r"\{\w*(?::[^}]*)?\}|[{}]|\n|; | · |(?<![\w-])twincheck [\w-]+")
STYLED = {"told", *re.findall(r"\.([a-z-]+)", (ROOT / "common/report/page/style.css").read_text())}


@cache
def msgids() -> tuple[str, ...]:
    """Every English message, its fields as one letter that is in none."""
    texts = (text for entry in ENTRIES for text in entry.english)
    return tuple(" ".join(FIELD.sub("\0", text).split()) for text in texts)


def without(pieces: Iterable[str]) -> list[str]:
    """Those pieces of sentences that no message holds."""
    known = "\1".join(msgids()).casefold()
    cut = (" ".join(piece.split()).strip(" ,;:.()#·—") for piece in pieces)
    called = re.compile(r"python (-m )?\S+")
    left = (one for one in cut if one not in NO_SENTENCE and not called.fullmatch(one))
    left = (piece for piece in left if not COLUMNS.issuperset(piece.split()))
    return list(dict.fromkeys(piece for piece in left if piece.casefold() not in known))


# ---- what the sources say ------------------------------------------------------------------------


def of_python(source: str, others: bool = True) -> Iterator[str]:
    """The pieces of three words and more between the fields of a file's strings.

    But for its docstrings, which --help shows of a command alone, for a list of words that is split
    where it stands, for patterns, and for how a command is called.
    """
    tree = ast.parse(source)
    passed, raised = set(), set()
    if re.search(r"(Parser|in_language)\(__doc__|check_main\(STEP", source):
        lines = (line.strip() for line in (ast.get_docstring(tree) or "").splitlines())
        called = re.compile(r"(python|twincheck) (?!.*   )|\[|--[\w-]+ ")
        yield from (one for line in lines if not called.match(line) for one in BETWEEN.split(line))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr):
            passed.add(first.value)
        if isinstance(node, ast.Raise):
            raised.update(ast.walk(node))
        if isinstance(node, ast.Attribute) and node.attr == "split":
            passed.add(node.value)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            passed.update(one for part in node.args[:1] for one in ast.walk(part))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed:
            if CODE.search(node.value) or not (others or node in raised):
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
    source = 'raise E("all of this is an error")\nx = f"{a} is not what was put in"'
    said = ["all of this is an error", "is not what was put in"]
    assert [one.strip() for one in of_python(source)] == said
    words = '"""Do what is asked.\n\ntwincheck it\n"""\nx = "one two three".split()\n'
    assert list(of_python(words)) == []
    assert list(of_python(words + "Parser(__doc__)")) == ["Do what is asked.", ""]
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
    pieces = list(of_python((ROOT / path).read_text(encoding="utf-8"), path not in OTHER_TEXT))
    assert without(pieces) == []
    assert without([*pieces, "a sentence that is new here"]) == ["a sentence that is new here"]


def test_every_text_of_the_page_has_chinese():
    for template in TEMPLATES:
        assert without(of_template(template.read_text(encoding="utf-8"))) == []
    scripts = [piece for path in PAGE for piece in of_script(path.read_text(encoding="utf-8"))]
    assert without(scripts) == []


# ---- the catalogue -------------------------------------------------------------------------------


def test_every_entry_is_whole():
    assert [problem for entry in ENTRIES for problem in problems(entry)] == []
    assert len({entry.english for entry in ENTRIES}) == len(ENTRIES), "a message stands there twice"


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
    path = Path(argparse.__file__) if place == "argparse.py" else ROOT / place
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    text += " ".join(map(os.strerror, errno.errorcode)) if place == "errno" else ""  # the system's
    return re.findall("[a-z]+", re.sub(r"""["']\s*\n\s*f?["']""", "", text).casefold())
