"""The checks as people run them: exit statuses, sentences, what they leave behind."""

import json

import numpy as np
import pytest
from builders import ended, without
from checkout import CHECKS, Checkout

MODEL = "fastformer"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy whose step 1 has been run once for the smallest model."""
    made = Checkout(tmp_path_factory.mktemp("checks"))
    made.first = made.check(1, "--model", MODEL)
    return made


@pytest.mark.slow
def test_a_check_writes_its_page_and_says_where(checkout):
    page = checkout.logs(1, MODEL).parent / "report.html"
    last = checkout.first.stdout.splitlines()[-1]
    assert last == f"ALIGNED in step 1 (eval and train) · guide 1/1 · {page}"
    text = page.read_text()
    assert ">Aligned: step 1, forward</span></h1>" in text and f"--model {MODEL}" in text
    assert [path.name for path in page.parent.glob("*report*")] == ["report.html"]


def says(done, status, *words):
    """The exit status, one sentence on standard error that has all words, and no traceback."""
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    told = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(told) == 1, done.stderr
    for word in words:
        assert word in told[0], told[0]


def test_green_from_another_folder_with_a_space_in_the_path(checkout):
    assert checkout.first.returncode == 0, checkout.first.stdout + checkout.first.stderr
    assert "ROUNDING" in checkout.first.stdout
    assert checkout.first.stderr == ""  # no progress line where there is no terminal
    folder = checkout.path("step1_forward/log") / MODEL
    sides = ("torch", "paddle", "torch_fp64", "paddle_fp64")
    for name in (f"forward_all_{side}" for side in sides):
        assert (folder / f"{name}.npy").is_file()
        assert json.loads((folder / f"{name}.json").read_text())["side"] in name
    assert "diff check passed" in (folder / "forward_diff.log").read_text()
    assert not list(folder.parent.glob(".*")), "working folders are removed"


REPROD_LOG = """
import json, sys
from reprod_log import ReprodDiffHelper as H
h = H(); a, b = h.load_info(sys.argv[1]), h.load_info(sys.argv[2])
h.compare_info(a, b); h.report(path=sys.argv[3])
print(json.dumps([list(a), {k: float(v['mean']) for k, v in h.diff_dict.items()}]))
"""


def by_reprod_log(checkout, stem):
    """The keys that reprod_log reads, its means, and what it says of them."""
    folder, report = checkout.path("step1_forward/log") / MODEL, checkout.elsewhere / "its.log"
    logs = [str(folder / f"{stem}_{side}.npy") for side in ("torch", "paddle")]
    done = checkout.python("-W", "ignore", "-c", REPROD_LOG, *logs, str(report))
    keys, means = json.loads(done.stdout.splitlines()[-1])
    return keys, means, [line.partition("INFO: ")[2] for line in report.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_reprod_log_reads_the_logs_and_finds_our_means(checkout):
    _, report = checkout.rows(1, "--model", MODEL, "--compare-only")
    ours = {row["key"]: row["mean_abs"] for row in report["rows"]}
    assert by_reprod_log(checkout, "forward_all")[1] == ours


def test_the_hand_in_is_what_reprod_log_reads_and_says(checkout):
    """The guide's keys alone, and in forward_diff.log reprod_log's own words on them."""
    keys, _, theirs = by_reprod_log(checkout, "forward")
    cases = ("padding", "masked_rows", "train", "holes")
    assert keys == ["logits", *(f"{case}/logits" for case in cases)]
    ours = checkout.path("step1_forward/log") / MODEL / "forward_diff.log"
    here = [line.partition("INFO: ")[2] for line in ours.read_text().splitlines()]
    assert here == theirs and here[0] == "logits: " and here[-1] == "diff check passed"


def test_judging_needs_neither_framework(checkout):
    script = """
import sys, runpy
sys.modules |= dict.fromkeys(("torch", "paddle", "reprod_log"))  # an import of them fails
runpy.run_path(sys.argv[1], run_name="__main__")
"""
    arguments = (str(checkout.path(CHECKS[1])), "--model", MODEL, "--compare-only")
    script = script.replace("runpy.run", "sys.argv.pop(0)\nrunpy.run").replace("argv[1]", "argv[0]")
    ended(0, checkout.python("-c", script, *arguments))


def test_a_framework_that_is_not_installed(checkout):
    check = str(checkout.path(CHECKS[1]))
    done = checkout.python("-c", without("paddle"), check, "--model", MODEL)
    says(done, 2, "paddle is not installed", "doctor` says what to do", "--compare-only")


@pytest.mark.usefixtures("warm")
def test_weights_that_do_not_fit_list_both_sides(checkout):
    path = checkout.elsewhere / "other.npz"
    np.savez(path, **{"dense_linear.weight": np.zeros((2, 2)), "surplus": np.zeros(3)})
    done = checkout.check(1, "--model", MODEL, "--weights", str(path))
    says(done, 2, "missing: dense_linear.bias", "not in the model: surplus", "is [2, 2]")


@pytest.mark.usefixtures("warm")
def test_a_failed_run_leaves_the_former_logs_as_they_were(checkout):
    folder = checkout.path("step1_forward/log") / MODEL
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    path = checkout.path(f"common/models/{MODEL}/paddle_model.py")
    text = path.read_text()
    path.write_text(text + "\nraise RuntimeError('planted')\n")
    try:
        done = checkout.check(1, "--model", MODEL)
    finally:
        path.write_text(text)
    says(done, 2, "the paddle worker", "planted")
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
