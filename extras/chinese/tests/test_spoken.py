"""What people read in Chinese: a red check in the terminal, its page in a browser, the tables.

No English sentence is left in any of it, and one that is planted is found.
"""

import json
import re
import shutil
import sys

import builders
import pytest
from rich.table import Table
from rich.text import Text
from test_report_page import backward_result, open_page  # noqa: F401

from twincheck.__main__ import main
from twincheck.common.check.options import Parser
from twincheck.common.report import html_page, terminal
from twincheck.common.system import extras
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.reasons import Kind
from twincheck.extras.chinese import spoken
from twincheck.extras.chinese.catalogue import FIELD, catalogue
from twincheck.extras.chinese.spoken import language, translated

# Words that Chinese readers of this field have in English: names of frameworks, formats and modes,
# and what is called as programs call it.  Verdicts are in capitals.
TERMS = set(
    """
    torch paddle pytorch paddlepaddle numpy python scikit learn reprod_log javascript json sha nlp
    cv float32 float64 bfloat16 eval train step loss epsilon momentum dropout buffer mask adam sgd
    nan mean ips softmax logit logits docs english main log executable platform accuracy e0
    """.split()
)
# A path, a key, an option, an element's place; a name as the page marks it.
NAME = re.compile(r"--[\w-]+|[\w.<>*…-]*[/_.\[][\w./:\[\]*, -]*|[-\d.]+e[-+]?\d+")
CHINESE = re.compile("[\u4e00-\u9fff]")


def english_in(lines, *names):
    """Those lines that have English words in them, other than terms and names."""
    left = []
    for line in dict.fromkeys(lines):
        text = line
        for name in names:
            text = text.replace(name, "")
        words = re.findall(r"[A-Za-z][A-Za-z0-9_]+", NAME.sub(" ", text))
        if [word for word in words if word.lower() not in TERMS and not word.isupper()]:
            left.append(line)
    return left


@pytest.fixture
def chinese(monkeypatch):
    """A reader of Chinese, by the environment."""
    monkeypatch.setenv("LANGUAGE", "zh")


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """Step 1 of a Fastformer with a wrong epsilon: what was printed, and where its results are."""
    folder = tmp_path_factory.mktemp("red")
    pair = shutil.copytree(ROOT / "common/models/fastformer", folder / "fastformer")
    model, right = pair / "paddle_model.py", "nn.LayerNorm(out_size, epsilon=layer_norm_eps)"
    assert right in model.read_text()
    model.write_text(model.read_text().replace(right, "nn.LayerNorm(out_size, epsilon=1e-6)"))
    words = ("--model", pair, "--out", folder / "log", "--lang", "zh")
    printed = builders.python("step1_forward/check_step1.py", *words, status=1)
    return printed, folder / "log" / "step1_forward"


# ---- the terminal --------------------------------------------------------------------------------


def sentences(printed):
    """The lines of what a check printed, but for source, commands, and the page's place."""
    lines = (line.rsplit(" · ", 2)[0] if " · " in line else line for line in printed.splitlines())
    return [
        line for line in lines if not re.match(r" {6}|    \S*python|    (torch|paddle) +/", line)
    ]


@pytest.mark.slow
def test_a_red_check_is_told_in_chinese(red):
    printed, _ = red
    told = sentences(printed)
    assert english_in(told, "fastformer", "LayerNorm") == []
    assert any(
        "LayerNorm 的 epsilon 在 torch 中为 1e-12，在 Paddle 中为 1e-06；始于 main/" in line
        for line in told
    )
    assert english_in([*told, "  the loss is wrong here"], "fastformer", "LayerNorm")
    assert "nn.LayerNorm(out_size, eps=layer_norm_eps)" in printed  # the source as it is


@pytest.mark.parametrize(
    "words",
    [
        "certificate --weights x --offload --round-trip",
        "converter --model reformer --weights x --out x.npz --to paddle",
        "pr_report --for formers no/such",
    ],
)
def test_what_a_command_refuses_is_told_in_chinese(chinese, capsys, monkeypatch, words):
    command, *words = words.split()
    assert extras.run(command, words) == 2
    assert english_in([capsys.readouterr().err], "fastformer", "digits", "npz") == []
    monkeypatch.setenv("LANGUAGE", "en")
    assert extras.run(command, words) == 2
    assert english_in([capsys.readouterr().err], "fastformer", "digits", "npz")


@pytest.mark.slow
def test_what_programs_read_stays_english(red):
    _, folder = red
    told = json.loads((folder / "fastformer" / "result.json").read_text())
    assert "epsilon is 1e-12 in torch and 1e-06 in Paddle; it starts at main/" in told["headline"]
    assert not CHINESE.search((folder / "fastformer" / "result.json").read_text())
    for log in folder.glob("fastformer/*.json"):
        assert not CHINESE.search(log.read_text())


@pytest.mark.parametrize("command", "check step1 compare verify".split())
def test_every_command_takes_the_option(monkeypatch, capsys, command):
    monkeypatch.setenv("LANGUAGE", "en")
    words = [command, "--nope", "--lang", "zh"]
    monkeypatch.setattr(sys, "argv", ["twincheck", *words])
    try:
        status = main(words)
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr().err
    assert status == 2 and said.startswith("错误：") and said.count("\n") == 1, said
    assert "列出可用选项" in said and "--lang" not in said


def test_tables_have_their_styles_and_names(chinese, capsys):
    table = Table(title="step 1: loss")
    for heading in ("model", "verdict", "worst tensor"):
        table.add_column(heading)
    table.add_row("model", "[red]DIVERGED[/red] in 1,234 rows", "main/shape")
    terminal.show_table(table)
    printed = capsys.readouterr().out
    assert "第 1 步：损失函数对齐" in printed and "最差的张量" in printed
    assert re.search(r"│ model +│ DIVERGED，1,234 行 +│ main/shape", printed)
    assert table.columns[0].header == "model" and table.title == "step 1: loss"  # as it was
    said = spoken.shown(Text.assemble(("NOT ALIGNED", "bold red"), " (eval and train)"))
    assert said.plain == "NOT ALIGNED（eval 和 train）"
    assert [(s.start, s.end, s.style) for s in said.spans] == [(0, 11, "bold red")]
    assert (
        spoken.shown("[red]error:[/red] the loss is off").markup == "[red]错误[/red]：loss 不一致"
    )
    assert spoken.shown("[red]the loss is off[/red]").markup == "[red]loss 不一致[/red]"


def test_a_line_of_source_is_no_sentence(chinese, capsys):
    terminal._console().print("the same bits", no_wrap=True)
    terminal.say("the same bits")
    assert capsys.readouterr().out.split() == ["the", "same", "bits", "逐位一致"]


def test_an_output_without_chinese_letters_is_english(chinese, monkeypatch):
    class Latin:
        encoding = "latin-1"

    assert spoken.shown("the same bits").plain == "逐位一致"
    monkeypatch.setattr(sys, "stdout", Latin())
    assert spoken.shown("the same bits") == "the same bits"


# ---- which language ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en"}, "en"),
        ({"LC_ALL": "C", "LANGUAGE": "zh_CN:en"}, "zh"),
    ],
)
def test_the_locale_says_it_where_no_option_does(monkeypatch, environment, expected):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language() == expected


def test_the_option_goes_before_the_locale(monkeypatch):
    monkeypatch.setenv("LANGUAGE", "en")
    Parser("A command.").parse_args(["--lang", "zh"])
    assert language() == "zh"
    Parser("A command.").parse_args(["--lang=en"])
    assert language() == "en"


# ---- a sentence ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "english, expected",
    [
        ("the same bits", "逐位一致"),
        ("The same bits.", "逐位一致。"),
        ("the gradient of a.b is off after step 3 of adam", "adam 第 3 步之后 a.b 的梯度不一致"),
        (
            "constant; zero in exact arithmetic: noise on both sides",
            "常数；理论值为 0：两侧都是噪声",
        ),
        (
            "step 1, one and two: DIVERGED at main/loss, port.py:3 · guide 1/2",
            "第 1 步，one and two：DIVERGED，位于 main/loss, port.py:3 · 指南 1/2",
        ),
        ("no sentence of ours; the loss is off", "no sentence of ours；loss 不一致"),
        ("Case train.", "用例 train。"),
        ("main/the same bits", "main/the same bits"),
        ("", ""),
    ],
)
def test_a_sentence_is_found_by_the_template_that_made_it(english, expected):
    assert translated(english) == expected


def samples(kind=lambda entry: True):
    """English -> Chinese of each message, its fields filled with numbers and names."""
    filled = {"n": "1,234", "x": "5.01e-07", "v": "DIVERGED", "w": "acc"}

    def fill(text):
        return FIELD.sub(lambda match: filled.get(match[1].rstrip("0123456789"), "main/a.b"), text)

    entries = filter(kind, catalogue().entries)
    return {fill(text): fill(one.chinese) for one in entries for text in one.english}


def test_each_message_is_found_by_what_it_makes():
    """None is hidden behind another template, or taken apart."""
    apart = {text: (translated(text), said) for text, said in samples().items()}
    assert {text: both for text, both in apart.items() if both[0] != both[1]} == {}


# ---- the page ------------------------------------------------------------------------------------


def test_a_page_begins_in_the_language_of_who_wrote_it(chinese, tmp_path, open_page):  # noqa: F811
    """tests/test_page_language.py has what is on it."""
    results = [backward_result(tmp_path / "back")]
    html_page.write_page(tmp_path / "report.html", results, "twincheck check", Kind.STEPS_ALL())
    shown = open_page(tmp_path / "report.html")
    headline = Kind.PAGE_HEADLINE(outcome=Kind.PAGE_ALIGNED(), base=Kind.STEPS_ALL())
    heading, html = shown.page.locator("h1"), shown.page.locator("html")
    button = shown.page.locator(".language button")
    assert heading.inner_text() == spoken.LANGUAGE.said(headline)
    assert html.get_attribute("lang") == "zh-CN" and button.inner_text() == "English"
    button.click()
    assert heading.inner_text() == headline and html.get_attribute("lang") == "en"
    assert button.inner_text() == "中文" and shown.faults() == []


@pytest.mark.slow
def test_the_page_of_a_check_is_in_chinese(red, open_page):  # noqa: F811
    shown = open_page(red[1] / "report.html")
    said = spoken.LANGUAGE.said(Kind.PAGE_OVERVIEW())
    assert shown.page.locator("#h-overview").inner_text() == said and shown.faults() == []
