"""Train mode with dropout on: both sides draw from the tape, however they spell their dropout."""

import importlib

import numpy as np
import pytest
from builders import PAIRS, a_case, a_net, copied, ended, judged, paddles, write_pair
from checkout import change

from twincheck.common.check.result import modes_checked
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.sides.dropouts import _drop
from twincheck.common.sides.session import Session, using
from twincheck.common.system.errors import UserError


@pytest.fixture
def pair(tmp_path):
    """A copy of the pair whose dropouts are layers on one side and functions on the other."""
    return copied(PAIRS / "dropouts", tmp_path / "my pairs")


def verdicts(report):
    return {row["key"]: row["verdict"] for row in report["rows"]}


@pytest.mark.slow
def test_layers_functions_attention_and_checkpointing_draw_alike(checkout, pair):
    done, found = ended(0, judged(checkout, 4, pair, "--mode", "train"))
    rates = {"dropout:p", "dropout#2:p", *(f"feed_forward.dropout#{i}:p" for i in (2, 3, 4))}
    assert rates <= set(found), "each draw is a row, the checkpointed part's once"
    assert {"norm:running_mean", "norm:running_var", "grad/feed_forward.inner.weight"} <= set(found)
    assert "random numbers" not in done.stdout
    # In eval mode nothing is drawn.
    _, found = ended(0, judged(checkout, 1, pair, "--mode", "eval"))
    assert not any(key.endswith(":p") for key in found)


@pytest.mark.slow
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
    words = ("--model", str(pair), "--no-report", "--mode", "train" if train else "eval")
    done, report = ended(1, checkout.rows(1, *words))
    assert report["first_diverged"] == key
    drew = "paddle drew uniform numbers of shape [4, 16, 16]" in done.stdout
    assert drew == (name == "own random numbers")


# ---- both modes, by default ----------------------------------------------------------------------

CASE = a_case(
    '"x": rng.normal(size=(SAMPLES, 7)).astype("f4"), "labels": rng.integers(0, 3, SAMPLES)'
)
TORCH = a_net(
    "self.inner = nn.Linear(7, 6)\nself.norm = NORM\nself.head = nn.Linear(6, 3)",
    'return {"logits": self.head(DROPPED)}',
    'F.cross_entropy(outputs["logits"], inputs["labels"])',
)
TEXTS = (TORCH, paddles(TORCH))
PLAIN = "F.relu(self.norm(self.inner(x)))"
DROPPED = f"F.dropout({PLAIN}, RATE, training=self.training)"
# Name -> samples, torch's norm, Paddle's norm, what stands behind the norm on either side, and what
# the check says of its modes.
SAME = "checked in eval mode; train mode is the same function"
PAIRS_OF_MODES = {
    "no_mode": (5, "nn.LayerNorm(6)", "nn.LayerNorm(6)", PLAIN, PLAIN, SAME),
    "rate_of_0": (5, "nn.LayerNorm(6)", "nn.LayerNorm(6)", *[DROPPED.replace("RATE", "0.0")] * 2,
                  SAME),
    "frozen": (5, "nn.BatchNorm1d(6).requires_grad_(False)", "nn.BatchNorm1D(6)", PLAIN, PLAIN,
               "checked in eval and train mode"),
    "drops": (5, "nn.LayerNorm(6)", "nn.LayerNorm(6)", *[DROPPED.replace("RATE", "0.3")] * 2,
              "checked in eval and train mode"),
    "one_sample": (1, "nn.BatchNorm1d(6)", "nn.BatchNorm1D(6)", PLAIN, PLAIN,
                   "checked in eval mode alone; train mode was not checked (the reference fails in "
                   "train mode: ValueError"),
    "port_drops": (5, "nn.LayerNorm(6)", "nn.LayerNorm(6)", PLAIN, DROPPED.replace("RATE", "0.3"),
                   "checked in eval and train mode"),
    "other_code": (5, "nn.LayerNorm(6)", "nn.LayerNorm(6)", PLAIN,
                   f"({PLAIN} * 3 / 3 if self.training else {PLAIN})",
                   "checked in eval and train mode"),
    "momentum": (5, "nn.BatchNorm1d(6)", "nn.BatchNorm1D(6, momentum=0.1)", PLAIN, PLAIN,
                 "checked in eval and train mode"),
}  # fmt: skip
RED = {"port_drops": "train/dropout:p", "momentum": "train/norm:running_mean"}


@pytest.fixture(scope="module")
def modes(tmp_path_factory):
    """The folder of the pairs above."""
    base = tmp_path_factory.mktemp("modes")
    for name, (samples, torch, paddle, *inner, _) in PAIRS_OF_MODES.items():
        texts = (
            text.replace("NORM", norm).replace("DROPPED", body)
            for text, norm, body in zip(TEXTS, (torch, paddle), inner, strict=True)
        )
        write_pair(base / name, CASE.replace("SAMPLES", str(samples)), *texts)
    return base


@pytest.fixture(scope="module")
def checked(checkout, modes):
    """Return what step 1 says of all of them."""
    models = [word for name in PAIRS_OF_MODES for word in ("--model", str(modes / name))]
    return checkout.rows(1, *models, "--no-report")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS_OF_MODES)
def test_both_modes_run_where_they_are_two_functions(checked, name):
    done, report = checked
    rows = [row for row in report["rows"] if row["model"] == name]
    said = PAIRS_OF_MODES[name][-1]
    (modes,) = (one["modes"] for one in report["guide"] if one["model"] == name)
    assert modes.startswith(said)
    in_train = [row["key"] for row in rows if row["key"].startswith("train/")]
    assert bool(in_train) == (said.startswith("checked in eval and") or name in RED)
    red = [row["key"] for row in rows if row["verdict"] in ("DIVERGED", "INVALID", "PRECISION")]
    assert red[:1] == ([RED[name]] if name in RED else []), done.stdout


def test_logs_of_eval_mode_alone_do_not_do_for_a_port_that_has_two_modes():
    """Somebody else's: torch cannot be run in train mode here."""
    functions = "the same function", "output logits"
    cars = [Sidecar(mode="both", modes={"main": "eval", "train": one}) for one in functions]
    with pytest.raises(UserError, match="the port's output logits is not what it is in eval mode"):
        modes_checked(*cars)
    assert modes_checked(cars[0], cars[0]) == (("eval",), SAME)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode, short, said, keys",
    [
        ("eval", "eval alone", "checked in eval mode alone; train mode was not checked",
         {"norm", "perturbed/norm"}),
        ("train", "train alone", "checked in train mode alone; eval mode was not checked",
         {"norm:running_mean", "perturbed/norm:running_mean"}),
    ],
)  # fmt: skip
def test_one_mode_can_be_asked_for(checkout, modes, mode, short, said, keys):
    done, report = checkout.rows(1, "--model", str(modes / "momentum"), "--mode", mode)
    assert done.returncode == (mode != "eval")
    assert f"({short}) · " in done.stdout.splitlines()[-1]
    assert said in done.stdout
    assert keys <= set(verdicts(report))
    page = (checkout.path("step1_forward") / "log" / "report.html").read_text()
    assert said in page


def test_step_4_takes_one_optimizers_steps_in_train_mode(checkout, modes):
    done, report = ended(1, checkout.rows(4, "--model", str(modes / "momentum"), "--no-report"))
    assert report["first_diverged"] == "train/norm:running_mean"
    keys = set(verdicts(report))
    in_train = {key.split("/")[1] for key in keys if "/000/" in key and key[:6] == "train/"}
    assert in_train == {"sgd"}
    assert {"adamw/001/loss", "train/sgd/001/loss", "train/grad/inner.weight"} <= keys


@pytest.mark.parametrize("name", ["torch", "paddle"])
def test_a_dropout_is_the_frameworks_but_for_its_mask(name):
    """Both sides divide by 1 - p what they keep in training, and change nothing in evaluation."""
    side = importlib.import_module(f"twincheck.common.sides.backend_{name}").side
    ones = side.lib.ones([64, 8])
    with using(Session(0)):
        kept, whole = (side.array(_drop(side, ones, 0.2, training)) for training in (True, False))
    assert set(np.unique(kept)) == {0.0, np.float32(1.25)} and 0.7 < (kept > 0).mean() < 0.9
    assert (whole == 1.0).all()
