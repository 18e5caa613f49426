"""What a side is told (RunRequest), the process that answers, and what each command takes."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from builders import ended
from checkout import Checkout, change

from twincheck.common.check.options import OF_EVERY_CHECK, CheckOptions, Parser, of
from twincheck.common.check.runner import run_step
from twincheck.common.check.workers import Processes
from twincheck.common.check_all import all_steps
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.task import TeacherForced
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.system.errors import UserError

PAIR = Path(__file__).parent / "pairs" / "small_cnn"
LOGS = [f"forward_all_{side}{run}" for side in ("torch", "paddle") for run in ("", "_fp64")]
TEACHER_FORCED = "forward_all_paddle_fp64_teacher_forced"


# ---- the file -----------------------------------------------------------------------------------


def test_a_request_comes_back(tmp_path):
    request = RunRequest("reformer", seed=3, cases=("lm", "qa"), epochs=2, mode="train")
    for one in (request, replace(request, task=TeacherForced(feed="fed.npz", stepping=("lm",)))):
        one.write(tmp_path / "request.json")
        assert RunRequest.read(tmp_path / "request.json") == one


@pytest.mark.parametrize(
    "content, said",
    [
        ("{", "no proper JSON"),
        ("{}", "this request names no model"),
        ('{"model": "m", "sed": 1}', "has no field 'sed'; it has model, preset"),
        ('{"model": "reformer", "seed": true}', "seed is True; allowed: int"),
        ('{"model": "reformer", "cases": "lm"}', "cases is 'lm'; allowed: tuple[str, ...]"),
        ('{"model": "reformer", "phase": "last"}', "phase is 'last'; allowed: first or full or"),
        ('{"model": "m", "task": {"name": "Wait"}}', "allowed: a task's fields and its name"),
        ('{"model": "m", "task": {"name": "Inspect", "ask": "x"}}', "ask is 'x'; allowed: see or"),
    ],
)
def test_what_is_no_request_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "request.json"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        RunRequest.read(path)
    assert said in str(error.value) and str(path) in str(error.value)


# ---- the command line ---------------------------------------------------------------------------


def test_a_check_takes_its_own_options_and_no_other():
    takes = {step.number: set(step.takes) for step in all_steps()}
    cases, data, training = (set(of(group)) for group in ("cases", "data", "training"))
    for number in (1, 3, 4):
        assert cases <= takes[number]
        assert not takes[number] & (data | training)
    assert data <= takes[2] and not takes[2] & (cases | training)
    assert data | training <= takes[5] and not takes[5] & cases
    for step in all_steps():
        parser = Parser("").take(*step.takes)
        for action in parser._actions:
            option = action.option_strings[-1]
            shown = f": {option}" in action.help  # a flag is its own example
            assert shown == (action.nargs != 0), f"{option} has no example, or one too many"


# ---- the process --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy that has judged the tests' pair with a planted fault, so with a teacher-forced run."""
    copy = Checkout(tmp_path_factory.mktemp("requests"))
    copy.pair = Path(shutil.copytree(PAIR, copy.elsewhere / "small_cnn"))
    change(copy.pair / "paddle_model.py", "epsilon=1e-12", "epsilon=1e-3")
    done = ended(1, copy.check(1, "--model", str(copy.pair), "--no-report"))
    copy.said = done.stdout
    return copy


def by_hand(checkout, side, request):
    """A side's script, run with a request's path by what runs this file's checks."""
    command = ("-W", "ignore", "-m", f"step1_forward.{side}.forward", request)
    return checkout.python(*command, PYTHONPATH=str(checkout.root), PYTHONUNBUFFERED="1")


def test_a_red_check_names_the_setting_that_a_layer_has_on_one_side_alone(checkout):
    """Plants a LayerNorm's epsilon: the sides' own sidecars know it."""
    lines = [line for line in checkout.said.splitlines() if line.startswith("step 1, small_cnn: ")]
    said = "LayerNorm's epsilon is 1e-12 in torch and 0.001 in Paddle; it starts at main/norm"
    assert lines[0] == f"step 1, small_cnn: {said}"
    for given in ("eps=1e-12", "epsilon=1e-3"):  # the lines that build it
        assert re.search(rf"> +\d+ +self.norm = nn.LayerNorm.channels, {given}", checkout.said)
    assert "--case main --probe norm" in checkout.said


@pytest.mark.slow
def test_a_side_runs_again_by_hand_with_the_same_bits(checkout, tmp_path):
    """The teacher-forced log, too: a process of its own writes what the waiting one wrote."""
    made = checkout.logs(1, "small_cnn")
    for name in ("request_torch", "request_paddle", "request_paddle_teacher_forced"):
        shutil.copy(made / f"{name}.json", tmp_path)
    for name in ("torch", "paddle", "paddle_teacher_forced"):
        side = name.partition("_")[0]
        request = str(tmp_path / f"request_{name}.json")
        ended(0, by_hand(checkout, side, request))
    for log in (*LOGS, TEACHER_FORCED):
        assert (tmp_path / f"{log}.npy").read_bytes() == (made / f"{log}.npy").read_bytes(), log
        one, other = (json.loads((p / f"{log}.json").read_text()) for p in (tmp_path, made))
        for entry in set(one) | set(other):
            if entry not in ("time", "elapsed_s"):
                assert one.get(entry) == other.get(entry), f"{log}: {entry}"


def test_a_model_that_reads_and_prints_does_not_disturb_the_answers(checkout, tmp_path):
    pair = Path(shutil.copytree(PAIR, tmp_path / "chatty"))
    noise = "import sys\nassert sys.stdin.read() == ''\nprint('@progress half a line', end='')\n"
    for side in ("torch", "paddle"):
        with open(pair / f"{side}_model.py", "a") as file:
            file.write(noise)
    ended(0, checkout.check(1, "--model", str(pair), "--no-report"))


@pytest.mark.slow
@pytest.mark.parametrize(("side", "after_s"), [("torch", 4), ("paddle", 0)])
def test_a_side_that_dies_takes_no_other_model_with_it(checkout, tmp_path, side, after_s):
    """The next model is handed to it already, as after a while, or not yet."""
    pairs = [Path(shutil.copytree(PAIR, tmp_path / name)) for name in ("before", "dies", "after")]
    with open(pairs[1] / f"{side}_model.py", "a") as file:
        file.write("\nimport os, sys, time\nprint('ValueError: no more', file=sys.stderr)\n")
        file.write(f"sys.stderr.flush()\ntime.sleep({after_s})\nos._exit(3)\n")
    models = [option for pair in pairs for option in ("--model", str(pair))]
    done, report = ended(2, checkout.rows(1, *models, "--no-report"))
    assert {row["model"] for row in report["rows"]} == {"before", "after"}
    assert set(report["errors"]) == {"dies"}
    told = f"the {side} worker ended with status 3: ValueError: no more"
    assert told in report["errors"]["dies"]


@pytest.mark.slow
def test_one_process_of_a_side_answers_for_every_step(tmp_path, monkeypatch):
    """It imports its framework once, and a file that was edited meanwhile is read anew."""
    started, done = [], []

    def count(self):
        started.append(self.side)
        return begin(self)

    begin = WorkerProcess._started
    monkeypatch.setattr(WorkerProcess, "_started", count)
    pair = Path(shutil.copytree(PAIR, tmp_path / "pair"))
    options = Parser("", "check").take(*OF_EVERY_CHECK, *of("reference")).parse_args
    given = CheckOptions.of(options(["--model", str(pair), "--no-report", "--out", str(tmp_path)]))
    with Processes() as processes:
        for number in (1, 3):
            step = next(step for step in all_steps() if step.number == number)
            (result,) = run_step(
                step, given, lambda text, share=None: done.append(share), processes
            )
            assert not result.error and result.exit_code == 0
            shares = [share for share in done if share is not None]
            assert shares == sorted(shares) and 0.0 <= shares[0] < shares[-1] < 1.0
            assert len(shares) == 2 * 2 * (4 if number == 1 else 3)  # sides, precisions, cases
            done.clear()
        edited = "\n\ndef build(config):\n    raise ValueError('edited')\n"
        renamed = "\n\nRENAME = {'nothing': 'such'}\n"
        for name, text, said in (
            ("paddle_model.py", edited, "edited"),
            ("case.py", renamed, "only in the Paddle model"),
        ):
            sound = (pair / name).read_text()
            (pair / name).write_text(sound + text)
            (result,) = run_step(step, given, lambda *told: None, processes)
            assert said in result.error
            (pair / name).write_text(sound)
        (result,) = run_step(step, given, lambda *told: None, processes)
        assert not result.error and result.exit_code == 0
    assert sorted(started) == ["paddle", "torch"]


# ---- --case -------------------------------------------------------------------------------------


def test_one_case_is_what_it_is_in_the_whole(checkout):
    model = ("--model", str(PAIR), "--no-report", "--out", str(checkout.elsewhere / "cases"))
    _, whole = checkout.rows(1, *model)
    done, part = checkout.rows(1, *model, "--case", "perturbed")
    assert done.returncode == 0 and "this ran the case perturbed alone" in done.stdout
    rows = [row for row in whole["rows"] if row["key"].startswith("perturbed/")]
    assert part["rows"] == rows and 0 < len(rows) < len(whole["rows"])


@pytest.mark.slow
def test_a_part_is_not_taken_for_the_whole(checkout):
    model = ("--model", str(PAIR), "--no-report", "--out", str(checkout.elsewhere / "parts"))
    ended(0, checkout.check(1, *model, "--case", "main"))
    ended(0, checkout.check(1, *model, "--case", "main", "--compare-only"))
    for other in ([], ["--case", "perturbed"]):
        done = checkout.check(1, *model, *other, "--compare-only")
        assert done.returncode == 2 and "holds the case main alone" in done.stderr
    done = checkout.check(1, *model, "--reuse", "torch")
    assert done.returncode == 0 and "run again: changed since: configuration" in done.stdout
    done = ended(2, checkout.check(1, *model, "--case", "nosuch"))
    assert "--case nosuch: there is no such case; there are main, perturbed" in done.stderr
