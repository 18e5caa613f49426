"""README.md and docs/ are true: `make check` passes, and every command of theirs runs."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT, Checkout
from pages import DOCS, README, run_commands

import tools.readme
from common.logs.reader import read_log
from common.logs.result_folder import FLOAT64, ResultFolder
from common.verdict.measures import rms
from tools.readme import fill, main, results_table

FEW_STEPS = ("--steps", "12")  # of a training


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy in which `make check` has been run, with a few steps of one epoch in step 5."""
    made = Checkout(tmp_path_factory.mktemp("readme"), pairs=("examples/text_classifier",))
    arguments = ("-m", "common.check_all", "--epochs", "1", *FEW_STEPS)
    made.everything = subprocess.run(
        [*made.interpreter, *arguments], cwd=made.root, capture_output=True, text=True, timeout=900
    )
    return made


def test_make_check_passes_every_step_of_every_model(checkout):
    done = checkout.everything
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((checkout.root / "log" / "report.json").read_text())
    cells = {(row["step"], row["model"]) for row in report["rows"]}
    models = ("reformer", "fast_transformer", "fastformer")
    assert cells == {(step, model) for step in range(1, 6) for model in models}
    assert report["verdict"] == "ROUNDING" and report["exit_code"] == 0
    assert (checkout.root / "log" / "report.txt").read_text().count("ROUNDING") == 15


def test_every_log_says_who_wrote_it_and_reprod_log_reads_it(checkout):
    logs = sorted(checkout.root.glob("step*/log/*/*.npy"))
    assert len(logs) > 60
    script = (
        "import sys\nfrom reprod_log import ReprodDiffHelper as H\n"
        "for path in sys.argv[1:]: assert H().load_info(path), path\n"
    )
    done = checkout.python("-W", "ignore", "-c", script, *map(str, logs))
    assert done.returncode == 0, done.stderr
    for path in logs:
        sidecar = json.loads(path.with_suffix(".json").read_text())
        assert sidecar["frameworks_loaded"] == [sidecar["side"]]
    for folder in {path.parent for path in logs}:
        reports = [p.name for p in folder.glob("*_diff.log")]
        assert len(reports) == 1, folder


def test_gap_is_tiny_against_the_noise_wherever_no_constant_is_in_float32(checkout):
    # Step 4 has most rows.  What make check leaves says nothing of the noise; torch's logs do.
    report = json.loads((checkout.root / "log" / "report.json").read_text())
    ratios = {}
    for model in ("reformer", "fast_transformer", "fastformer"):
        files = ResultFolder(checkout.logs(4, model))
        with (
            read_log(files.log("bp_align_all", "torch")) as log,
            read_log(files.log("bp_align_all", "torch", FLOAT64)) as exact,
        ):
            for row in report["rows"]:
                key = row["key"]
                # A scalar's noise can be tiny by luck, and a gradient that is zero in exact
                # arithmetic has no gap of its own.
                if (row["step"], row["model"]) != (4, model) or row.get("noise_only"):
                    continue
                if row.get("gap") and key in log and np.prod(log.shape(key)) > 1:
                    noise = rms(log[key] - exact[key])
                    ratios[model, key] = row["gap"] / noise if noise else 0.0
    assert len(ratios) > 10000
    assert max(ratios.values()) <= 1e-5, max(ratios, key=ratios.get)


# The README's first, then those of docs/ in the order of their names; each once.
PAGES = [README, *DOCS]
COMMANDS = list(dict.fromkeys(c for page in PAGES for c in run_commands(page.read_text())))
PYTHON = [command for command in COMMANDS if command.startswith("python ")]


def test_the_pages_have_the_commands_that_are_tested():
    assert {"make check", "make test"} == set(COMMANDS) - set(PYTHON)
    assert len(PYTHON) >= 20
    assert all(any(part in command for command in PYTHON) for part in LESS)


# Further options of a command, where `make check` has run above what takes its time.
LESS = {
    "step4_backward/check_step4.py --model reformer": ("--case", "lm_masked_rows"),
    "step5_train/check_step5.py": FEW_STEPS,
}


@pytest.mark.parametrize("command", PYTHON)
def test_commands_run(checkout, command):
    less = [option for part, more in LESS.items() if part in command for option in more]
    done = subprocess.run(
        [*checkout.interpreter, *command.split()[1:], *less],
        cwd=checkout.root,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_results_table_and_its_place():
    row = {"step": 1, "model": "m", "verdict": "ROUNDING", "gap": 1e-9, "allowed": 1e-6}
    guide = [{"step": 1, "model": "m", "guide_passed": True}]
    table = results_table([row | {"guide_passed": False}], guide)
    said = "≤ 1e-03 of allowed; guide: its keys passed, 1 of 1 tensors FAIL |"
    assert f"| 1 | ROUNDING, 1 rows, {said}" in table
    text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb"
    assert fill(text, {"x": "new"}) == "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb"
    with pytest.raises(ValueError, match="0 places"):
        fill("nothing", {"x": "new"})


def test_each_part_goes_to_its_page(tmp_path, monkeypatch):
    for page in PAGES:
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(page, copy)
    numbers = {"max_abs": 1e-7, "mean_abs": 1e-8, "gap": 1e-9, "allowed": 1e-6}
    row = {"step": 5, "model": "m", "key": "train/final_predictions", "verdict": "ROUNDING"}
    report = {"rows": [row | numbers | {"guide_passed": None, "note": "as good as each other"}]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    (tmp_path / "report.txt").write_text("a table of verdicts\n")
    monkeypatch.setattr(tools.readme, "ROOT", tmp_path)
    monkeypatch.setattr(tools.readme, "PICS", tmp_path / "pics")
    assert main(["--report", str(tmp_path / "report.json")]) == 0
    assert "```\na table of verdicts\n```" in (tmp_path / "README.md").read_text()
    results = (tmp_path / "docs" / "results.md").read_text()
    assert "* `m`: as good as each other" in results and "| 5 | ROUNDING, 1 rows" in results
    changed = [page for page in PAGES if page.read_text() != read_copy(tmp_path, page)]
    assert [page.name for page in changed] == ["README.md", "results.md"]
    assert (tmp_path / "pics" / "verdicts.png").is_file()


def read_copy(folder, page):
    return (folder / page.relative_to(ROOT)).read_text()


def test_a_missing_report_is_a_sentence(tmp_path, capsys):
    assert main(["--report", str(tmp_path / "none.json")]) == 2
    assert "run `make check` first" in capsys.readouterr().err


def test_pictures_are_drawn(checkout, tmp_path):
    report = checkout.root / "log" / "report.json"
    shutil.copy(report, tmp_path / "report.json")
    from tools.readme import _rows, draw_verdicts

    target = Path(tmp_path) / "verdicts.png"
    draw_verdicts(_rows(report), [], target)
    assert target.read_bytes().startswith(b"\x89PNG")
