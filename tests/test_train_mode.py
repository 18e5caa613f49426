"""Train mode with dropout on: both sides draw from the tape, however they spell their dropout."""

import shutil
from pathlib import Path

import pytest
from checkout import Checkout, change

PAIRS = Path(__file__).parent / "pairs"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy whose step 4 takes two optimizer steps instead of ten: they are not what is tried."""
    made = Checkout(tmp_path_factory.mktemp("train mode"))
    made.replace("step4_backward/setups.py", "STEPS = 10", "STEPS = 2")
    return made


@pytest.fixture
def pair(tmp_path):
    """A copy of the pair whose dropouts are layers on one side and functions on the other."""
    return shutil.copytree(PAIRS / "dropouts", tmp_path / "my pairs" / "dropouts")


def verdicts(report):
    return {row["key"]: row["verdict"] for row in report["rows"]}


def test_layers_functions_attention_and_checkpointing_draw_alike(checkout, pair):
    done, report = checkout.rows(4, "--model", str(pair), "--train", "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(report)
    rates = {"dropout:p", "dropout#2:p", *(f"feed_forward.dropout#{i}:p" for i in (2, 3, 4))}
    assert rates <= set(found), "each draw is a row, the checkpointed part's once"
    assert {"norm:running_mean", "norm:running_var", "grad/feed_forward.inner.weight"} <= set(found)
    assert "random numbers" not in done.stdout
    # In eval mode nothing is drawn.
    done, report = checkout.rows(1, "--model", str(pair), "--no-report")
    assert done.returncode == 0 and not any(key.endswith(":p") for key in verdicts(report))


@pytest.mark.parametrize(
    "name, old, new, train, key",
    [
        ("left out", "F.dropout2d(self.conv(images), self.p, training=self.training)",
         "self.conv(images)", True, "dropout:p"),
        ("left on in eval", "F.selu(x), self.p, training=self.training", "F.selu(x), self.p",
         False, "feed_forward.dropout:p"),
        ("own random numbers", "F.dropout(weights, self.p, training=self.training)",
         "weights * (paddle.rand(weights.shape) > self.p).astype(weights.dtype)", True,
         "dropout#2:p"),
    ],
    ids=["left out", "left on in eval", "own random numbers"],
)  # fmt: skip
def test_a_wrong_dropout_is_named(checkout, pair, name, old, new, train, key):
    change(pair / "paddle_model.py", old, new)
    arguments = ["--train"] if train else []
    done, report = checkout.rows(1, "--model", str(pair), "--no-report", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert report["first_diverged"] == key
    assert ("paddle drew uniform numbers of shape [4, 16, 16]" in done.stdout) == (
        name == "own random numbers"
    )
