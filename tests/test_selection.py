"""--probe and --no-probe: what is not looked at costs nothing, and what decides stays the same."""

import json
from pathlib import Path

import numpy as np
import pytest
from builders import SMALL_CNN, arrays_of, ended, printed
from checkout import change

from twincheck.common.check.command_line import check_main
from twincheck.common.check.reuse import reference_key
from twincheck.common.check_all import all_steps
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.sides.session import Selection
from twincheck.common.system.errors import UserError

NAMES = ("encoder", "encoder.0", "encoder.0.norm", "encoder.0.drop", "encoder.10", "head")


# ---- patterns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern, taken",
    [
        ("encoder.0", ["encoder.0", "encoder.0.norm", "encoder.0.drop"]),
        ("encoder.1", []),
        ("encoder.*", ["encoder.0", "encoder.0.norm", "encoder.0.drop", "encoder.10"]),
        ("*.norm", ["encoder.0.norm"]),
        ("encoder.?", ["encoder.0"]),
        ("encoder.[!1]*", ["encoder.0", "encoder.0.norm", "encoder.0.drop"]),
    ],
)
def test_a_name_is_a_module_with_all_in_it_and_a_pattern_is_the_whole_name(pattern, taken):
    selection = Selection([pattern])
    assert [name for name in NAMES if selection.takes(name)] == taken


def test_without_patterns_all_is_taken_or_nothing():
    assert all(map(Selection().takes, NAMES)) and not Selection().is_partial
    assert not any(map(Selection(nothing=True).takes, NAMES))


def test_a_pattern_of_which_nothing_is_seen_is_a_sentence():
    selection = Selection(["encoder.0", "haed", "encoder.10"])
    for name in NAMES:
        selection.takes(name)
    selection.saw("encoder.0.norm")
    selection.saw("encoder.10")
    selection.refuse_unseen()  # another case's model may have it
    selection.complete = True
    with pytest.raises(UserError) as error:
        selection.refuse_unseen()
    assert str(error.value).startswith("--probe haed: no module or named intermediate has such")
    assert "it has 6, such as head" in str(error.value)
    idle = Selection(["head"])
    idle.takes("head")
    idle.complete = True
    with pytest.raises(UserError, match="--probe head: head is in the model and is never called"):
        idle.refuse_unseen()


# ---- whole checks -------------------------------------------------------------------------------


TWO = ("--probe", "features.?", "--probe", "norm")
TAKEN = ("features.0", "features.1", "features.2", "features.3", "norm")
SITES = ("features", "norm", "square", "head")


@pytest.fixture(scope="module")
def logs(checkout, tmp_path_factory):
    """(folder of step 4's results by the options of a run, its rows)."""
    runs = {}
    for options in ((), ("--no-probe",), TWO):
        out = tmp_path_factory.mktemp("out")
        arguments = ("--model", str(SMALL_CNN), "--no-report", "--mode", "eval", "--out", str(out))
        done, report = ended(0, checkout.rows(4, *arguments, *options))
        runs[options] = out, {row["key"]: row["verdict"] for row in report["rows"]}, done.stdout
    return runs


def values(out):
    """Run and key -> the values of both sides' logs."""
    files = ResultFolder(out / "step4_backward" / "small_cnn")
    found = {}
    for name, path in files.judged_logs("bp_align_all").items():
        if path is not None and Path(path).is_file():
            found |= {(name, key): values for key, values in arrays_of(path).items()}
    return found


@pytest.mark.slow
def test_what_decides_is_the_same_whatever_is_looked_at(logs):
    (out, rows, _), *others = logs.values()
    full = values(out)
    for other, _, _ in others:
        some = values(other)
        assert 0 < len(some) < len(full)
        for key, array in some.items():
            np.testing.assert_array_equal(array, full[key], str(key))
    decides = {key for key in rows if not (":in/" in key or "grad_of/" in key)}
    decides -= {key for key in rows if key.removeprefix("perturbed/").split(".")[0] in SITES}
    assert set(others[0][1]) == decides
    seen = {key.split(":")[0].removeprefix("perturbed/") for key in others[1][1].keys() - decides}
    assert seen == {"grad_of/" * back + name for name in TAKEN for back in (0, 1)}


@pytest.mark.slow
def test_what_was_looked_at_is_said_and_logs_of_other_probes_are_not_taken(logs, capsys):
    assert "(--probe 'features.?' --probe norm)" in logs[TWO][2]
    out = logs[("--no-probe",)][0]
    step4 = all_steps()[3]
    known = ["--model", str(SMALL_CNN), "--out", str(out), "--no-report", "--compare-only"]
    said = " ".join(printed(capsys, 2, check_main(step4, [*known, "--probe", "norm"])).err.split())
    assert "was made with --no-probe, and this check is with --probe norm: give the same" in said
    for arguments, sentence in (
        (["--no-probe", "--probe", "norm"], "--probe and --no-probe exclude each other"),
        (["--no-probe", "--transplant", "smallest"], "smallest looks at every tensor: leave --no"),
    ):
        assert sentence in printed(capsys, 2, check_main(step4, [*known[:-1], *arguments])).err
    of, python = load_pair(str(SMALL_CNN)), "python"
    keys = [
        json.dumps(reference_key(step4, of, RunRequest(**told), python, out / "no data"))
        for told in ({}, {"no_probe": True}, {"probes": ("norm",)}, {"probes": ("head",)})
    ]
    assert len(set(keys)) == 4


@pytest.mark.slow
def test_a_red_check_says_where_it_did_not_look(checkout, pair):
    change(pair / "paddle_model.py", "paddle.tanh(", "paddle.sin(")
    arguments = ("--model", str(pair), "--no-report", "--case", "perturbed")
    for options in ("--no-probe",), ("--probe", "norm"):
        done, report = checkout.rows(1, *arguments, *options)
        said = " ".join(done.stdout.split())
        assert done.returncode == 1 and report["first_diverged"] == "perturbed/logits"
        assert f"leave {options[0]} out to look everywhere" in said
        again = said.partition("# again")[2].partition(" # ")[0]
        assert f" --case perturbed {' '.join(options)}" in again and " --json " in again
    done = ended(2, checkout.check(1, *arguments, "--probe", "nrom"))
    assert "--probe nrom: no module or named" in done.stderr
    assert "such as norm" in done.stderr
