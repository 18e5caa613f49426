"""Sentences that say what is wrong where a number alone would not."""

import pytest
from builders import PAIRS, copied, ended, judged

PAIR = PAIRS / "told"
NOISE = "NaN is in perturbed alone, on both sides, and main is clean: noise on weights may take one"


def check(checkout, step, preset, *options, pair=PAIR):
    return judged(checkout, step, pair, "--preset", preset, *options)


@pytest.mark.slow
def test_a_correct_port_is_told_nothing(checkout):
    done, rows = ended(0, check(checkout, 1, "default", "--mode", "train"))
    assert NOISE not in done.stdout and not any("axes" in row["note"] for row in rows.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "length", "key"),
    [("layer's mask", 8, "drop"), ("square", 10, "drop"), ("function's mask", 8, "second:in/0")],
)
def test_a_mask_along_other_axes_is_said_where_it_is(checkout, fault, length, key):
    done, rows = check(checkout, 1, fault, "--mode", "train")
    assert done.returncode == 1 and rows[key]["verdict"] == "DIVERGED" and rows[key]["origin"]
    assert (
        "the dropout here drops along other axes in Paddle: its mask is "
        f"[4, {length}, 1] in torch and [4, 1, 10] in Paddle"
    ) in rows[key]["note"]


@pytest.mark.slow
def test_nan_of_noise_is_told_from_nan_of_the_model(checkout):
    done, _ = check(checkout, 1, "root", "--mode", "eval")
    assert done.returncode == 1 and f"note: {NOISE}" in done.stdout, done.stdout
    assert "--case main leaves such weights out" in done.stdout
    done, _ = check(checkout, 1, "root", "--mode", "eval", "--case", "main")
    assert done.returncode == 0 and NOISE not in done.stdout, done.stdout
    done, _ = check(checkout, 1, "root", "--mode", "eval", "--case", "perturbed")
    assert done.returncode == 1 and NOISE not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "what"),
    [("dict", "dict"), ("samples", "Tensor of shape [4]"), ("float", "float")],
)
def test_a_loss_is_a_scalar(checkout, fault, what):
    done, _ = ended(2, check(checkout, 3, fault))
    assert (
        f"torch_model.py: loss returns a {what}, not a tensor of one value; steps 3, 4 and 5 need "
        "loss(outputs, inputs) -> scalar"
    ) in done.stderr


def test_a_weight_of_another_module_is_named(checkout, tmp_path):
    pair = copied(PAIR, tmp_path)
    exchanged = '{**torch_state, "first.bias": torch_state["second.bias"], '
    exchanged += '"second.bias": torch_state["first.bias"]}'
    with open(pair / "case.py", "a") as file:
        file.write(f"\n\ndef convert(torch_state):\n    return {exchanged}\n")
    done, rows = ended(1, check(checkout, 1, "default", "--mode", "eval", pair=pair))
    for own, other in (("first", "second"), ("second", "first")):
        said = f"its weight {own}.bias is made of torch's {other}.bias, another module's"
        assert said in rows[own]["note"], rows[own]


def test_a_weight_that_the_model_changes_is_named(checkout):
    done, rows = ended(1, check(checkout, 1, "put in", "--mode", "eval"))
    assert "its weight first.bias is not what was put in" in rows["first"]["note"]
