"""A user's own pair: a folder with three files, given by its path."""

import pytest
from builders import a_case, a_net, copied, ended, twincheck, write_pair
from checkout import change
from ported import LAYER_ZOO, SMALL_LSTM, SMALL_TRANSFORMER


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, 4])
def test_steps_1_3_and_4_work_with_no_other_edit(checkout, pair, step):
    done, report = ended(0, checkout.rows(step, "--model", str(pair)))
    keys = {row["key"] for row in report["rows"]}
    expected = {1: "features.1", 3: "loss", 4: "grad/features.0.weight"}[step]
    assert expected in keys, "probes and parameters have torch's names, through RENAME"
    if step == 1:
        assert "pooled/0" in keys and "features.1:in/0" in keys
        assert not any(key.startswith("pool:") for key in keys)
        assert "modules that one side alone has" in done.stdout


OTHERS = [SMALL_LSTM, SMALL_TRANSFORMER, LAYER_ZOO]


@pytest.mark.parametrize("step", [1, 3, 4])
def test_the_frameworks_own_layers_are_aligned(checkout, step):
    """Recurrent, attention, and one of each layer: weights, probes, gradients and moments."""
    models = [word for path in OTHERS for word in ("--model", str(path))]
    done, report = ended(0, checkout.rows(step, *models, "--no-report"))
    keys = {(row["model"], row["key"]) for row in report["rows"]}
    expected = {
        1: ["lstm/1/1", "decoder:in/2", "states/1/decoded/0", "lstm_cell/1"],
        3: ["loss", "states/1/decoded/0"],
        4: [
            "grad/decoder.multihead_attn.in_proj_weight",
            "adamw/000/moment2/encoder.layers.1.self_attn.in_proj_bias",
            "sgd/000/velocity/lstm.weight_hh_l1_reverse",
            "adamw/000/weight/plane.4.weight",
            "grad/weighted.weight_g",
        ],
    }[step]
    assert not set(expected) - {key for _, key in keys}
    assert {model for model, _ in keys} == {path.name for path in OTHERS}


def before_the_head(pair, side, line):
    """Put a line of code in front of the model's last one."""
    old = '        return {"logits": '
    change(pair / f"{side}_model.py", old, f"        {line}\n{old}")


def test_a_model_of_one_s_own_may_write_through_a_view(checkout, pair):
    """Built-in twins are run without views; there this Paddle model would lose what it writes."""
    for side, view in (("torch", "transpose(0, 1)"), ("paddle", "transpose([1, 0])")):
        before_the_head(pair, side, f"x = x * 1.0; x.{view}.add_(x.{view} * 0.5)")
    ended(0, checkout.check(1, "--model", str(pair), "--no-report"))


MODELS = ("small_cnn", "small_lstm")


@pytest.mark.slow
def test_a_wrong_model_s_origin_is_found_while_another_runs(checkout, pair):
    """Its teacher-forced run is asked of a Paddle process that owes the other's answer."""
    before_the_head(pair, "paddle", "x = x * 1.01")
    alone, of_one = checkout.rows(1, "--model", str(pair), "--no-report")
    models = ("--model", str(pair), "--model", str(OTHERS[0]))
    done, report = checkout.rows(1, *models, "--no-report")
    assert (alone.returncode, done.returncode) == (1, 1)
    assert report["first_diverged"] == of_one["first_diverged"] == "norm:in/0"
    rows = {name: [r for r in report["rows"] if r["model"] == name] for name in MODELS}
    assert rows["small_cnn"] == of_one["rows"]
    assert {row["verdict"] for row in rows["small_lstm"]} <= {"IDENTICAL", "ROUNDING"}


@pytest.mark.slow
def test_a_recurrent_layer_s_dropout_is_compared_in_training(checkout, tmp_path):
    pair = copied(OTHERS[0], tmp_path, ("num_layers=2, ", "num_layers=2, dropout=0.1, "))
    change(pair / "torch_model.py", "num_layers=2, ", "num_layers=2, dropout=0.3, ")
    assert checkout.check(1, "--model", str(pair), "--no-report").returncode == 0
    words = "--model", str(pair), "--mode", "train", "--no-report"
    done, report = ended(1, checkout.rows(1, *words))
    assert report["first_diverged"] == "lstm:p"


def test_a_square_linear_that_is_not_transposed_is_caught(checkout, pair):
    new = "F.linear(self.norm(x), self.square.weight.T, self.square.bias)"
    change(pair / "paddle_model.py", "self.square(self.norm(x))", new)
    done, report = ended(1, checkout.rows(1, "--model", str(pair)))
    assert report["first_diverged"] == "head:in/0", "what the line that leaves it out hands on"
    assert [row["verdict"] for row in report["rows"] if row["key"] == "square"] == ["INSIDE"]


def test_a_layer_of_another_shape_is_named(checkout, pair):
    old = "nn.Linear(channels, num_labels)"
    change(pair / "paddle_model.py", old, "nn.Linear(channels, num_labels + 1)")
    done = ended(2, checkout.check(1, "--model", str(pair)))
    assert "head.weight is [4, 6] in torch and [6, 5] in Paddle" in done.stderr


@pytest.mark.parametrize("name", ["case.py", "torch_model.py", "paddle_model.py"])
def test_a_missing_file_is_named(checkout, pair, name):
    (pair / name).unlink()
    done = ended(2, checkout.check(1, "--model", str(pair)))
    assert name in done.stderr and "Traceback" not in done.stderr


CASE = a_case('"x": rng.standard_normal([4, 3]), "target": rng.standard_normal([4, 2])')
TORCH = a_net(
    "self.head = nn.Linear(3, 2)",
    """
    if self.training:
        with torch.no_grad():
            self.head.weight.copy_(self.head.weight / (self.head.weight**2).mean().sqrt())
    return {"out": self.head(x) ** 2}
    """,
    '((outputs["out"] - inputs["target"]) ** 2).mean()',
)


def test_a_forward_pass_may_write_its_weights(tmp_path):
    """As one does that normalizes them; an SGD step moves what it has left."""
    folder = write_pair(tmp_path / "normalized", CASE, TORCH)
    said = twincheck("step4", folder, "--mode", "train", "--no-report", "--out", tmp_path / "out")
    assert "ALIGNED in step 4 (train alone)" in said
