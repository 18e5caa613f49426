"""What a terminal shows: the red block in its order, commands that can be copied, scores."""

import io
import os
import re
import shlex
import subprocess

import numpy as np
import pytest
from builders import write_log
from checkout import ROOT
from rich.console import Console

from twincheck.common.check.result import Result
from twincheck.common.check_all import all_steps
from twincheck.common.report import terminal
from twincheck.common.report.findings import findings_of
from twincheck.common.report.sentences import decided, digits, fewest_digits
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import FED, NO_STEP, OF_OPERATORS, Row, claim

STEPS = all_steps()
KEY = "perturbed/blocks.0.norm2"


def red_row(key=KEY, verdict="DIVERGED", **more) -> Row:
    """A row that starts to be wrong, as the judge leaves it."""
    numbers = dict(gap=4.9e-6, allowed=5.4e-11, noise_ref=3e-8, noise_cand=4e-8, scale=1.0)
    numbers |= dict(mean_abs=4e-6, max_abs=1e-5, guide_passed=False, measure="rms", origin=True)
    numbers |= dict(beyond=192, size=768, worst_index=(2, 1), worst_ref=-2.1, worst_cand=-2.2)
    numbers |= dict(difference=4e-6, noise=3e-8)
    return Row(key, verdict, **(numbers | more))


@pytest.fixture
def pair(tmp_path):
    """A pair's folder with a space in its path, and two sources."""
    folder = tmp_path / "my pairs" / "it's one"
    folder.mkdir(parents=True)
    for side in ("torch", "paddle"):
        lines = [f"{side} line {number}" for number in range(1, 8)]
        (folder / f"{side}_model.py").write_text("\n".join(lines) + "\n")
    return folder


def red(pair, *rows: Row, step=STEPS[0], **more) -> Result:
    """A red result of that pair."""
    rows = rows or (red_row(),)
    places = {
        side: {row.key: f"{pair}/{side}_model.py:4" for row in rows} for side in ("torch", "paddle")
    }
    known = dict(rows=[*rows, Row("logits", "CARRIED")], places=places, cases=("", "perturbed/"))
    known |= dict(classes={"torch": {row.key: "LayerNorm" for row in rows}}, folder=pair / "log")
    known |= dict(notes=["a note"], settings=settings(1e-12, 1e-5))
    return Result(step, "one", str(pair), **(known | more))


def settings(torch: float, paddle: float) -> dict:
    """Return what both sides' sidecars say of one layer."""
    sides = {"torch": torch, "paddle": paddle}
    return {side: {KEY: {"epsilon": value, "momentum": 0.1}} for side, value in sides.items()}


def headline(row: Row, class_name: str = "", cases=(), built=None) -> str:
    """The first line of a result that has this row alone."""
    known = dict(classes={"torch": {row.key: class_name}}, cases=cases, settings=built or {})
    (finding,) = findings_of(Result(STEPS[0], "m", rows=[row], **known))
    return finding.headline


def shown(capsys, result, step=STEPS[0]) -> str:
    """Return what is printed where the output is no terminal."""
    terminal.show_step(step, [result])
    return capsys.readouterr().out


def test_a_red_result_says_what_is_wrong_then_numbers_then_lines_then_what_to_type(capsys, pair):
    out = shown(capsys, red(pair))
    wanted = [
        "step 1, one: LayerNorm's epsilon is 1e-12 in torch and 1e-05 in Paddle; it starts at "
        "perturbed/blocks.0.norm2\n",
        "1 DIVERGED, 1 CARRIED",
        "plain: the float64 gap 4.90e-06 is more than 5.40e-11; own errors: torch 3.00e-08, "
        "paddle 4.00e-08; size 1.00e+00\n",
        "192 of 768 elements beyond; worst at [2, 1]: torch -2.1, paddle -2.2",
        "torch and paddle share 5.4 of 7.5 digits here\n",
        "  2  torch line 2\n",
        "      >    4  torch line 4\n",
        "  6  torch line 6\n",
        "      >    4  paddle line 4\n",
        "note: a note",
        "what to type next",
        "twincheck show",
        "--case perturbed --probe blocks.0.norm2",
        "twincheck mend",
        "twincheck issue",
        "--json rows.json",
        "--compare-only",
        "docs/red-check.md",
    ]
    at = [out.index(text) for text in wanted]
    assert at == sorted(at)
    assert "line 1\n" not in out and "line 7\n" not in out and "\x1b" not in out


def test_what_is_the_same_function_is_offered_no_edit_that_makes_it_green(capsys, pair):
    out = shown(capsys, red(pair, red_row(verdict="PRECISION")))
    assert "--allow precision" in out and "what loses it in the port" in out
    assert "the edit that makes it green" not in out
    assert "--allow" not in shown(capsys, red(pair))


@pytest.mark.parametrize(
    ("row", "class_name", "built", "said"),
    [
        (red_row(inside=True), "LayerNorm", (1e-5, 1e-5), "norm2 (LayerNorm) computes something"),
        (red_row(), "", (1e-12, 1e-5), "perturbed/blocks.0.norm2's epsilon is 1e-12 in torch"),
        (red_row(f"{KEY}:in/0"), "LayerNorm", (1e-12, 1e-5), "is given other values: look at"),
        (red_row(verdict="PRECISION"), "LayerNorm", (1e-12, 1e-5), "much less exact here"),
        (claim("main/witness/sgd_step/torch", 1.0, 0.1), "", (1.0, 2.0), "the torch side's own"),
    ],
)
def test_a_cause_is_named_only_where_it_is_known(row, class_name, built, said):
    sentence = headline(row, class_name, ("main/", "perturbed/"), settings(*built))
    assert said in sentence and sentence.endswith(f"; it starts at {row.key}")
    assert ("epsilon" in said) == ("epsilon" in sentence)
    assert headline(red_row("logits"), "", ("",)).endswith("it starts at main/logits")


def test_a_momentum_is_said_as_each_side_writes_it_with_what_means_the_same(capsys, pair):
    """0.1 in both, as in many ports: Paddle counts the running statistic's part."""
    row = red_row(f"{KEY}:running_mean")
    known = {"torch": {KEY: {"momentum": 0.1}}, "paddle": {KEY: {"momentum": 0.9}}}
    made = {side: {KEY: f"{pair}/{side}_model.py:6"} for side in known}
    told = dict(settings=known, made=made, classes={"torch": {row.key: "BatchNorm1d"}})
    out = shown(capsys, red(pair, row, **told))
    said = "momentum is 0.1 in torch and 0.1 in Paddle, where 0.9 means the same (1 - torch's); it"
    assert f"BatchNorm1d's {said} starts at" in out
    assert ">    6  torch line 6\n" in out and ">    6  paddle line 6\n" in out


OFF = dict(gap=2e-9)


@pytest.mark.parametrize(
    ("verdict", "more", "said"),
    [
        ("ROUNDING", dict(measured=True), "plain: the float64 gap 1.20e-15 is at most 3.40e-12"),
        ("ROUNDING", dict(excuses=(Kind.MEASURED,), noise=1e-6, noise_ref=2e-9), "measured: "),
        ("DIVERGED", OFF, "plain: the float64 gap 2.00e-09 is more than 3.40e-12; own errors"),
        ("DIVERGED", OFF | dict(fed=FED), "proven: "),
        ("CARRIED", OFF | dict(fed=NO_STEP), "plain: "),
        ("CONSTANT", OFF | dict(excuses=(Kind.OPERATOR,), proof=OF_OPERATORS), "proven: "),
        ("CONSTANT", dict(excuses=(Kind.OPERATOR,)), "plain: "),  # nothing has shown it
        ("INSIDE", OFF, "inside: "),
        (
            "PRECISION",
            dict(noise_cand=1e-2, repeated=True),
            "repeated: paddle's own error 1.00e-02",
        ),
        ("CLOSE", dict(gap=None, measure="max"), "float32 alone: "),
        ("FLIP", dict(measure="count"), "off by 1.20e-15, allowed 3.40e-12"),
        ("INVALID", dict(gap=None, scale=None), ""),
    ],
)
def test_what_decided_a_row_is_said_with_its_numbers(verdict, more, said):
    green = dict(gap=1.2e-15, allowed=3.4e-12, noise_ref=2.9e-7, noise_cand=3.1e-7, scale=0.5)
    row = Row("main/logits", verdict, **(green | dict(measure="rms", max_abs=1e-6) | more))
    told = decided(row)
    assert told.startswith(said) and bool(told) == bool(said)
    plain = "float32: mean difference –, max 1.00e-06; guide –"
    assert terminal.describe(row)[0] == (told or plain)


def test_how_many_digits_the_sides_share_is_said_once_for_a_result(capsys):
    """Not of gradients, values inside, steps, parts of choices or noise: the outputs' fewest."""
    rows = [
        Row("main/logits", "ROUNDING", difference=10**-6.1, noise=10**-6.2),
        Row("main/exact", "IDENTICAL", difference=0.0, noise=1e-7),
        Row("main/coarse", "ROUNDING", difference=10**-2.4, noise=10**-2.6),
        Row("main/lower", "ROUNDING", difference=10**-1.1, noise=10**-1.1),
        *(Row(key, "ROUNDING", difference=1.0, noise=1e-7) for key in NO_OUTPUTS),
        Row("main/layer", "INSIDE", inside=True, difference=1.0, noise=1e-7),
        Row("main/zero", "ROUNDING", noise_only=True, difference=1.0, noise=1e-7),
        Row("main/ids", "IDENTICAL"),
    ]
    result = Result(STEPS[0], "m", rows=rows, cases=("main/",))
    out = shown(capsys, result)
    assert "digits shared" in out and "2.4 of 2.6" in out
    terminal.show_all(STEPS[:1], [result])
    assert "outputs share 2.4 of 2.6 digits" in capsys.readouterr().out
    assert fewest_digits(rows[1:2], ("main/",)) == "all digits"
    assert fewest_digits(rows[4:], ("main/",)) == ""
    assert digits(Row("x", "CLOSE", difference=10**-6.1)) == "6.1 digits"


NO_OUTPUTS = [f"main/{key}" for key in "grad/logits adam/003/loss hash:margin dense:in/0".split()]
NO_OUTPUTS += ["main/buffer/mean"]


def test_commands_can_be_copied(capsys, pair, monkeypatch):
    """From two folders, whatever the path holds: the shell gives back the words."""
    typed = (("preset", ("--preset", "a b")), ("seed", ("--seed", "3")))
    for folder in (ROOT, pair.parent):
        monkeypatch.chdir(folder)
        out = shown(capsys, red(pair, step=STEPS[3], typed=typed), STEPS[3])
        commands = re.findall(r"    # .*\n    (.*)", out)
        assert len(commands) == 7
        for command in commands:
            words = shlex.split(command)
            said = subprocess.run(
                f"printf '%s\\n' {command}", shell=True, capture_output=True, text=True, check=True
            )
            assert said.stdout.splitlines() == words
            assert os.path.exists(words[0])
            assert str(pair) in map(os.path.realpath, words)
        assert (
            "twincheck step1" in commands[0].replace("'", "")
            and "--preset 'a b' --seed 3" in commands[5]
        )


def test_a_narrow_terminal_wraps_sentences_at_words_and_cuts_sources(pair, monkeypatch):
    (pair / "torch_model.py").write_text("\n".join(["x" * 200] * 5))
    for width in (80, 120):
        file = io.StringIO()
        console = Console(file=file, width=width, force_terminal=True, no_color=True)
        monkeypatch.setattr(terminal, "_console", lambda stderr=False, to=console: to)
        terminal.show_step(STEPS[0], [red(pair)])
        lines = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()
        long = [line for line in lines if len(line.rstrip()) > width]
        assert all(str(pair) in line or "twincheck " in line for line in long), long
        assert sum("xxx…" in line for line in lines) == 4


def test_keys_notes_and_sources_cannot_drive_the_terminal(capsys, pair):
    key = "a\x1b[2J[red]\u202e"
    (pair / "torch_model.py").write_text("ok\nok\n\x1b[2J\u202e [bold]\nok\n")
    out = shown(capsys, red(pair, red_row(key), classes={"torch": {key: "\x1b[1mX"}}))
    assert "\x1b" not in out and "\u202e" not in out
    assert "[bold]" in out and "[red]" in out


def test_errors_alone_leave_no_empty_table(capsys):
    error = Result(STEPS[0], "m", error="no such thing")
    terminal.show_step(STEPS[0], [error])
    told = capsys.readouterr()
    assert told.out == "" and told.err == "error: step 1, m: no such thing\n"
    terminal.show_all(STEPS[:1], [error])
    assert capsys.readouterr().out == ""
    good = Result(STEPS[0], "n", rows=[Row("logits", "ROUNDING")])
    terminal.show_step(STEPS[0], [error, good])
    told = capsys.readouterr()
    assert "INVALID" not in told.out and "n " in told.out and "no such thing" in told.err


# ---- scores -------------------------------------------------------------------------------------


def logged(folder, stem: str, torch: dict, paddle: dict) -> None:
    """A guide's pair of scores."""
    for side, scores in (("torch", torch), ("paddle", paddle)):
        write_log(folder / f"{stem}_{side}.npy", {k: np.float64(v) for k, v in scores.items()})


def test_scores_of_steps_2_and_5_are_printed_with_the_guides_limit(capsys, tmp_path):
    torch = {"acc": 0.93, "macro_f1": 0.5, "seed_1/acc": 0.9, "only": 1.0, "nan": np.nan}
    paddle = {"acc": 0.93, "macro_f1": 0.502, "seed_1/acc": 0.901, "nan": np.nan}
    steps = (STEPS[1], "metric", "1e-06", 4), (STEPS[4], "train_align", "0.0015", 3)
    for step, stem, allowed, failing in steps:
        logged(tmp_path, stem, torch, paddle)
        rows = [Row("logits", "ROUNDING")]
        out = shown(capsys, Result(step, "m", rows=rows, folder=tmp_path), step)
        assert f"step {step.number}: scores; the guide allows a difference of {allowed}" in out
        assert re.search(r"m +acc +0\.93 +0\.93 +0 +passed", out)
        assert re.search(r"m +macro_f1 +0\.5 +0\.502 +0\.002 +FAIL", out)
        assert re.search(r"m +only +1 +– +– +FAIL", out)
        assert len(re.findall("FAIL", out)) == failing
