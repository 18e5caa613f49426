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
from test_page_language import english_in
from test_report_page import backward_result, open_page  # noqa: F401

from twincheck.__main__ import main
from twincheck.common.check.options import Parser
from twincheck.common.report import terminal
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.extras import in_language
from twincheck.common.system.program import say_error
from twincheck.common.system.reasons import Kind
from twincheck.extras.chinese import spoken
from twincheck.extras.chinese.spoken import language

# Words that Chinese readers of this field have in English: names of frameworks, formats and modes,
# and what is called as programs call it.  Verdicts are in capitals.
TERMS = set(
    """
    torch paddle pytorch paddlepaddle numpy python scikit learn reprod_log javascript json sha nlp
    cv float32 float64 bfloat16 eval train step loss epsilon momentum dropout buffer mask adam sgd
    nan mean ips softmax logit logits docs english main log executable platform accuracy e0
    """.split()
)
CHINESE = re.compile("[\u4e00-\u9fff]")


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
    assert english_in(told, ("fastformer", "LayerNorm"), TERMS) == []
    assert any(
        "LayerNorm 的 epsilon 在 torch 中为 1e-12，在 Paddle 中为 1e-06；始于 main/" in line
        for line in told
    )
    assert english_in([*told, "  the loss is wrong here"], ("fastformer", "LayerNorm"), TERMS)
    assert "nn.LayerNorm(out_size, eps=layer_norm_eps)" in printed  # the source as it is


@pytest.mark.parametrize(
    "words",
    [
        "converter --model reformer --weights x --out x.npz --to paddle",
        "pr-report --for formers no/such",
    ],
)
def test_what_a_command_refuses_is_told_in_chinese(chinese, capsys, monkeypatch, words):
    assert main(words.split()) == 2
    assert english_in([capsys.readouterr().err], ("fastformer", "digits", "npz"), TERMS) == []
    monkeypatch.setenv("LANGUAGE", "en")
    assert main(words.split()) == 2
    assert english_in([capsys.readouterr().err], ("fastformer", "digits", "npz"), TERMS)


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


def test_what_is_printed_is_said_by_its_reasons(chinese, capsys):
    """Names, text that is no reason and lines of source stay; a table is kept in English."""
    table = Table(title=Kind.STEP_TITLE(number=1, title=Kind.TITLE_FORWARD()))
    for heading in (Kind.HEADING_MODEL(), Kind.HEADING_WORST()):
        table.add_column(heading)
    table.add_row("the loss is off", Kind.LOSS_OFF())
    terminal.show_table(table)
    terminal.say(Kind.NOTE_OF(whose="loss", note=Kind.LOSS_OFF()))
    say_error(Kind.LOSS_OFF())
    printed, error = capsys.readouterr()
    assert "第 1 步：前向对齐" in printed and "最差的张量" in printed
    assert re.search(r"│ the loss is off +│ loss 不一致 +│", printed)
    assert printed.endswith("loss：loss 不一致\n") and error == "错误：loss 不一致\n"
    assert table.columns[1].header == "worst tensor", "as it was"


def test_an_output_without_chinese_letters_is_english(chinese, monkeypatch):
    class Latin:
        encoding = "latin-1"

    assert in_language(Kind.LOSS_OFF()) == "loss 不一致"
    monkeypatch.setattr(sys, "stdout", Latin())
    assert in_language(Kind.LOSS_OFF()) == "the loss is off"


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


def test_a_reason_is_said_by_its_template_and_its_fields():
    step = Kind.STEP_NUMBER_OF(number="3", setup="adam")
    off = Kind.OFF_AFTER_STEP(what=Kind.STEP_GRADIENT(), weight="loss", step=step)
    two = Kind.TEXT(text=[off, Kind.ALL_ZERO(), "the rest"])
    assert spoken.LANGUAGE.said(two) == "adam 第 3 步之后 loss 的梯度不一致；全为零；the rest"
    listed = Kind.NAMED_STEPS(steps=["1", "3"], models=["a", "b", "c"])
    assert spoken.LANGUAGE.said(listed) == "第 1 和 3 步，a、b 和 c"
    assert two == f"{off}; all zero; the rest", "kept in English"
