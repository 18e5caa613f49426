"""The last line of a check, and what is said once of several results."""

import re
import shlex
from dataclasses import replace

import pytest
from checkout import ROOT

from twincheck.common.check.result import Result
from twincheck.common.check_all import all_steps
from twincheck.common.pair.pairs import load_pair
from twincheck.common.report import terminal
from twincheck.common.report.commands import shown
from twincheck.common.report.summary import last_line, outcome
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import Row, claim

STEPS = all_steps()
BOTH = Kind.MODES_BOTH()
KEY = "main/blocks.0.norm2"
OFF = dict(gap=4.9e-6, allowed=5.4e-11, measure="rms", origin=True)


def result(step: int, *verdicts: str, model="one", **more) -> Result:
    """A result whose guide's rule passes, of rows with these verdicts."""
    rows = [Row(f"main/row_{i}", verdict) for i, verdict in enumerate(verdicts or ["ROUNDING"])]
    known = dict(rows=rows, guide_passed=True, modes=BOTH if step not in (2, 5) else "")
    return Result(STEPS[step - 1], model, **(known | dict(cases=("main/",)) | more))


def red(step: int, model="one", key=KEY, verdict="DIVERGED", line=4, **more) -> Result:
    """A red one, whose row both sides compute in line 4."""
    places = {side: {key: f"/a/{side}_model.py:{line}"} for side in ("torch", "paddle")}
    row = Row(key, verdict, **OFF)
    known = dict(rows=[row], places=places, guide_passed=False, classes={key: "LayerNorm"})
    return replace(result(step, model=model), **(known | more))


def five(**other: Result) -> list[Result]:
    """Five aligned steps, but for those given as s1, s4, …"""
    return [other.get(f"s{number}", result(number)) for number in range(1, 6)]


def test_all_that_is_aligned_is_counted_with_its_modes_and_the_page():
    page = ROOT / "log" / "report.html"
    fails = result(4, guide_passed=False)
    assert str(last_line(five(s4=fails), page)).startswith(
        "ALIGNED 5/5 (eval and train) · guide 4/5 · "
    )
    assert str(last_line(five(), page)).endswith(f" · {shown(page)}")
    models = [replace(one, model=name) for one in five() for name in ("a", "b")]
    assert str(last_line(models)) == (
        "ALIGNED: 2 models, 5/5 steps each (eval and train) · guide 10/10"
    )
    assert str(last_line([result(1)])) == "ALIGNED in step 1 (eval and train) · guide 1/1"
    three = [result(number) for number in (1, 3, 4)]
    left = {2: "the pair has no data", 5: "the pair has no data"}
    assert str(last_line(three, left_out=left)) == (
        "ALIGNED in steps 1, 3 and 4 (eval and train) · steps 2 and 5 left out: the pair has no "
        "data · guide 3/3"
    )
    assert str(last_line([result(2, guide_passed=None)])) == "ALIGNED in step 2"
    assert str(last_line([red(2)])).startswith("NOT ALIGNED · step 2, one: ")


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        (BOTH, "(eval and train)"),
        (Kind.MODES_THE_SAME(), "(eval; train is the same function)"),
        (Kind.MODE_ALONE_BECAUSE(ran="eval", missing="train", why="oh; no"), "(eval alone)"),
    ],
)  # fmt: skip
def test_a_mode_that_was_not_checked_cannot_be_overlooked(capsys, modes, said):
    one = result(1, modes=modes)
    assert f"ALIGNED in step 1 {said} ·" in str(last_line([one]))
    terminal.show_details([one, replace(one, model="two")])
    told = capsys.readouterr().out
    assert told == ("" if modes == BOTH else f"step 1, one and two: {modes}\n")
    if modes != BOTH:
        several = [one, result(1, model="two"), result(1, model="three")]
        known = f"({said[1:-1]} in step 1, one; eval and train in step 1, two and three)"
        assert known in str(last_line(several))


def test_what_is_red_is_named_with_its_line_and_a_command_that_can_be_copied():
    line = str(last_line(five(s1=red(1), s3=red(3), s4=red(4)), ROOT / "log" / "report.html"))
    start = f"NOT ALIGNED in 3 of 5 steps (eval and train) · step 1, one: DIVERGED at {KEY}, "
    assert line.startswith(f"{start}/a/paddle_model.py:4 · guide 2/5 · ")
    words = shlex.split(line.partition(" · next: ")[2])
    assert words[words.index("show") :] == ["show", KEY, "--model", "one", "--step", "1"]
    # A later step alone: step 1 is not asked for again where it has run.
    later = str(last_line(five(s4=red(4))))
    assert "in 1 of 5 steps" in later and " · step 4, one: " in later
    assert "twincheck step1" not in later and "twincheck step1" in str(last_line([red(4)]))
    assert str(last_line([red(1)])).startswith("NOT ALIGNED (eval and train) · step 1, one: ")
    several = [red(1, model="a"), result(1, model="b"), red(1, model="c")]
    assert "NOT ALIGNED in 2 of 3 models" in str(last_line(several))
    assert "\n" not in line and line.count("NOT") == 1
    witness = replace(red(1), rows=[claim("main/witness/sgd_step/torch", 1.0, 0.1)])
    assert "DIVERGED at main/witness/sgd_step/torch · guide" in str(last_line([witness]))


def test_what_could_not_run_and_what_is_undecided_are_no_agreement():
    error = Result(STEPS[4], "one", "/my pairs/one", error="no data: give --data\nFILE")
    line = str(last_line(five(s5=error)))
    assert line.startswith("NOT COMPARED in 1 of 5 steps (eval and train) · step 5, one could not ")
    assert "be compared: no data: give --data" in line and "\n" not in line and "guide 4/4" in line
    words = shlex.split(line.partition(" · next: ")[2])
    assert words[words.index("step5") :][:3] == ["step5", "--model", "/my pairs/one"]
    undecided = result(5, "ROUNDING", "UNDECIDED")
    line = str(last_line(five(s5=undecided)))
    assert line.startswith("UNDECIDED in 1 of 5 steps (eval and train) · step 5, one: UNDECIDED at")
    both = str(last_line(five(s1=red(1), s2=replace(error, step=STEPS[1]), s5=undecided)))
    parts = both.split(" · ")
    assert parts[0] == "NOT ALIGNED in 1 of 5 steps (eval and train)"
    assert [part[:11] for part in parts[1:4]] == ["step 1, one", "step 2, one", "step 5, one"]
    invalid = str(last_line([result(1, "INVALID")]))
    assert invalid.startswith("NOT ALIGNED (eval and train) · step 1, one: INVALID at main/row_0")
    assert str(last_line([])) == outcome([]) == "NOT COMPARED"
    empty = result(1, rows=[])
    assert "step 1, one could not be compared: it has no rows" in str(last_line([empty]))


def test_a_note_of_several_results_is_said_once(capsys):
    steps, models = (1, 3, 4), ("a", "b", "c")
    alike = [result(n, model=m, notes=["alike"]) for n in steps for m in models]
    terminal.show_details(alike)
    assert capsys.readouterr().out == "steps 1, 3 and 4, a, b and c: alike\n"
    terminal.show_details(alike[:4])
    assert capsys.readouterr().out == "4 results, such as step 1, a: alike\n"


def test_a_cause_that_comes_back_is_one_entry(capsys):
    """One mistake in four cases and another; what a further step carries is not told again."""
    keys = [f"{case}/blocks.0.norm2" for case in ("main", "long", "wide", "deep")] + ["main/head"]
    places = {
        side: {key: f"/a/{side}_model.py:{9 if 'head' in key else 4}" for key in keys}
        for side in ("torch", "paddle")
    }
    rows = [Row(key, "DIVERGED", **OFF) for key in keys]
    cases = tuple(f"{key.partition('/')[0]}/" for key in keys[:4])
    first = red(1, rows=rows, places=places, cases=cases, classes=dict.fromkeys(keys, "LayerNorm"))
    terminal.show_details([first, red(4)])
    told = capsys.readouterr().out
    assert "first: DIVERGED main/blocks.0.norm2\n" in told
    names = ", ".join(keys[1:4])
    assert f"    and in 3 more places: {names}\n" in told
    assert re.findall("also: DIVERGED (.*)", told) == ["main/head"]
    again = told.partition("step 4, one: ")[2]
    assert again.endswith(
        "  1 DIVERGED\n  /a/torch_model.py:4, /a/paddle_model.py:4: mend step 1 before it\n"
    )
    assert told.count("what to type next") == 1
    # Of two models each has an entry.
    terminal.show_details([red(1), red(1, model="two")])
    assert capsys.readouterr().out.count("what to type next") == 2


def test_a_pair_that_reads_its_data_from_a_file_has_all_steps():
    pairs = [load_pair(name) for name in ("informer", "fastformer")]
    assert [step.why_not(pair) for pair in pairs for step in all_steps()] == [""] * 10
    small = load_pair(str(ROOT / "tests" / "pairs" / "small_cnn"))
    without = "case.py has no make_data"
    assert [step.why_not(small) for step in all_steps()] == ["", without, "", "", without]
