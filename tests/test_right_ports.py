"""Right ports that were once called wrong pass now, and a wrong one of each kind does not."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from builders import copied
from checkout import CHECKS, ROOT, Checkout

from faults.fault import USERS
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.system.run_kind import RunKind


class Checked:
    """One check of one pair: its exit status, its rows by key, and where its logs are."""

    def __init__(self, step: int, folder: Path, out: Path, options: Sequence[str] = (), root=ROOT):
        report = out / "rows.json"
        command = [*Checkout.interpreter, str(root / CHECKS[step]), "--model", str(folder)]
        command += [*options, "--no-report", "--out", str(out), "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.status, self.said = done.returncode, done.stdout + done.stderr
        found = json.loads(report.read_text())
        self.first = found["first_diverged"]
        self.rows = {row["key"]: row for row in found["rows"]}
        self.files = ResultFolder(out / Path(CHECKS[step]).parent / folder.name)


def wrong(pair: str, folder: Path, old: str, new: str) -> Path:
    """A copy of a user's pair, in whose Paddle model a text is changed."""
    return copied(ROOT / USERS / pair, folder / "wrong", (old, new))


@pytest.mark.slow
def test_an_operator_that_is_inexact_explains_what_it_makes_of_trained_weights(checkout, tmp_path):
    """Paddle keeps both norms' epsilon in float32; an epsilon of the port's own is not excused,
    though it is as small: with exact operators it stays."""
    once = ("--steps", "12", "--allow", "undecided")  # a whole training is no matter here
    right = Checked(5, ROOT / USERS / "conformer", tmp_path / "right", once, checkout.root)
    assert right.status == 0, right.said
    copy = wrong("conformer", tmp_path, "momentum=0.9", "momentum=0.9, epsilon=1.0001e-5")
    bad = Checked(5, copy, tmp_path / "bad", once, checkout.root)
    assert bad.status == 1 and bad.first == "train/000/loss", bad.said
    fed = (RunKind.TEACHER_FORCED, RunKind.EXACT)
    runs = {run: bad.files.log("train_first", "paddle", run) for run in fed}
    seen = read_sidecar(runs[RunKind.TEACHER_FORCED]).inexact
    assert "batch_norm" in seen["train/000/blocks.0.conv.batch_norm"]
    assert "layer_norm" in seen["train/000/blocks.1.norm"]
    with read_log(runs[RunKind.TEACHER_FORCED]) as own, read_log(runs[RunKind.EXACT]) as exact:
        assert float(own["train/002/loss"]) != float(exact["train/002/loss"])


@pytest.mark.slow
def test_float32_data_and_a_model_that_returns_one_tensor(tmp_path):
    """Both loaders give the same batches in both precisions, and the tensor is scored."""
    found = Checked(2, ROOT / USERS / "plain_resnet", tmp_path)
    assert found.status == 0, found.said
    assert found.rows["train/hashes"]["verdict"] == "IDENTICAL"
    assert {"test/logits", "test/predictions", "accuracy"} <= set(found.rows)
    assert "scikit-learn/accuracy/paddle" in found.rows


@pytest.mark.slow
def test_a_batch_norm_that_is_frozen_in_each_framework_s_own_way(tmp_path):
    options = ("--case", "train")
    right = Checked(1, ROOT / USERS / "frozen_norms", tmp_path / "right", options)
    assert right.status == 0, right.said
    assert {key for key in right.rows if "running_mean" in key} == {"train/norm:running_mean"}
    copy = wrong("frozen_norms", tmp_path, ", use_global_stats=True", "")
    bad = Checked(1, copy, tmp_path / "bad", options)
    assert bad.status == 1 and bad.first == "train/frozen:running_mean", bad.said
    assert "only the other side's forward changes this buffer" in bad.rows[bad.first]["note"]


@pytest.mark.slow
@pytest.mark.parametrize("old, new", [('float("-inf")', 'float("inf")'), ('float("-inf")', "-1e9")])
def test_infinities_that_are_not_the_same(tmp_path, old, new):
    """Of another sign, on one side alone."""
    copy = wrong("pointer", tmp_path, old, new)
    found = Checked(1, copy, tmp_path, ("--case", "main", "--allow", "nan"))
    assert found.status == 1 and found.rows["logits"]["verdict"] == "INVALID", found.said


def test_infinities_that_are_the_same(checkout, tmp_path):
    found = Checked(4, ROOT / USERS / "pointer", tmp_path, ("--case", "main"), checkout.root)
    assert found.status == 0, found.said
    row = found.rows["mask"]
    assert row["verdict"] == "IDENTICAL" and "the same infinities on every side" in row["note"]
    with read_log(found.files.log("bp_align_all", "paddle")) as log:
        assert np.isinf(log["logits"]).any() and np.isfinite(log["logits"]).any()


def meant_otherwise(folder: Path, seed: int) -> Path:
    """The pair with other sizes, which coincide or not, and other meanings on the Paddle side."""
    rng = np.random.default_rng(seed)
    folder = copied(ROOT / USERS / "meant_otherwise", folder)
    width, alike = int(rng.choice([4, 6, 7])), bool(rng.integers(2))
    config = {
        "batch": width if alike else int(rng.choice([3, 5])),
        "length": width if alike else int(rng.choice([8, 9])),
        "width": width,
        "classes": width if rng.integers(2) else 5,
        "mask": str(rng.choice(["padding", "seen", "seen_bool", "added"])),
        "last": bool(rng.integers(2)),
        "time_first": bool(rng.integers(2)),
    }
    with open(folder / "case.py", "a") as file:
        file.write(f"\n\nCONFIGS = {{'default': {config!r}}}\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_right_port_is_red_by_what_it_is_fed(checkout, tmp_path, seed):
    """A BatchNorm in train mode has the Paddle side run again, fed with torch's values."""
    pair = meant_otherwise(tmp_path, seed)
    found = Checked(4 if seed % 2 else 1, pair, tmp_path / "out", root=checkout.root)
    assert found.status == 0, found.said
    stem = "bp_align_all" if seed % 2 else "forward_all"
    assert found.files.log(stem, "paddle", RunKind.TEACHER_FORCED).is_file()


@pytest.mark.slow
def test_a_fault_beside_what_means_otherwise_is_named(tmp_path):
    """Never the other order of rows, nor a convolution whose channels are last."""
    copy = wrong("meant_otherwise", tmp_path, "F.log_softmax(logits, -1)", "logits")
    with open(copy / "case.py", "a") as file:
        file.write("\n\nCONFIGS['default']['mask'] = 'seen'\n")
    bad = Checked(1, copy, tmp_path / "bad")
    assert bad.status == 1 and bad.first == "log_probs", bad.said
    copy = wrong("meant_otherwise", tmp_path / "norm", "GELU()", "Silu()")
    bad = Checked(1, copy, tmp_path / "norm" / "bad")
    assert bad.status == 1 and bad.first == "convs.0.act", bad.said
