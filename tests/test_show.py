"""`twincheck show`: which row is meant, and what is shown of it.  No framework is needed."""

import numpy as np
import pytest
from builders import printed, write_log

from twincheck.common.show import main

NOISE = 1e-8


@pytest.fixture
def out(tmp_path):
    """Logs of step 1 of two models and of step 3 of one, as a check leaves them with --out."""
    rng = np.random.default_rng(0)
    exact = {
        "encoder.0.norm": rng.standard_normal((4, 6)),
        "encoder.0.attention": rng.standard_normal((2, 4, 6)),
        "encoder.1.norm": rng.standard_normal((4, 6)),
        "choice": rng.integers(0, 9, (5,)),
        "loss": np.array(0.5),
    }

    def rounded(value, suffix, dtype):
        if value.dtype.kind != "f":
            return value.copy()
        return (value + NOISE * rng.standard_normal(value.shape) * (suffix == "")).astype(dtype)

    for place in ("step1_forward/mine", "step1_forward/yours", "step3_loss/mine"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        stem = "forward_all" if "forward" in place else "loss_all"
        for side in ("torch", "paddle"):
            for suffix, dtype in (("", np.float32), ("_fp64", np.float64)):
                arrays = {key: rounded(value, suffix, dtype) for key, value in exact.items()}
                if side == "paddle":
                    arrays["encoder.0.attention"][1, 2, 3] += 0.25
                    arrays["encoder.1.norm"][3, 0] = np.nan
                    arrays["choice"][2] += 1
                elif folder.name == "mine":
                    arrays["only_here"] = np.arange(3.0).astype(dtype)
                places = {"encoder.0.attention": f"mine/{side}_model.py:7"}
                write_log(folder / f"{stem}_{side}{suffix}.npy", arrays, {"places": places})
    return tmp_path


def test_the_worst_element_is_shown_on_both_sides(out, capsys):
    arguments = ["encoder.0.attention", "--out", str(out), "--model", "mine", "--around", "1"]
    text = printed(capsys, 0, main(arguments)).out
    assert "step 1, mine: encoder.0.attention: DIVERGED" in text
    assert "shape [2, 4, 6], float32 and float64" in text
    assert "torch   mine/torch_model.py:7" in text and "paddle  mine/paddle_model.py:7" in text
    table = [line for line in text.splitlines() if line[2:].startswith("[1, 2, ")]
    assert [line.split("]")[0] for line in table[:3]] == ["  [1, 2, 2", "> [1, 2, 3", "  [1, 2, 4"]
    numbers = map(float, table[1].split("]")[1].split())
    torch32, paddle32, torch64, paddle64, diff64, diff32 = numbers
    assert paddle64 - torch64 == pytest.approx(0.25, abs=1e-5)
    assert diff64 == pytest.approx(-0.25) and diff32 == pytest.approx(-0.25, abs=1e-6)
    assert torch32 == pytest.approx(torch64, abs=1e-5)
    assert paddle32 == pytest.approx(paddle64, abs=1e-5)
    assert "  [1, 1, 2:5]" in text and "> [1, 2, 2:5]" in text and "  [1, 3, 2:5]" in text
    assert "before it:\n  ROUNDING  encoder.0.norm" in text


def test_a_key_of_one_side_alone(out, capsys):
    text = printed(capsys, 0, main(["only_here", "--out", str(out)])).out
    assert "INVALID" in text and "missing on the paddle side" in text
    assert "paddle32  not there" in text and "paddle64  not there" in text


def test_what_is_not_finite_is_worse_than_any_difference(out, capsys):
    arguments = ["encoder.1.norm", "--out", str(out), "--model", "mine"]
    assert "> [3, 0]" in printed(capsys, 0, main(arguments)).out


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["norm", "--model", "mine"], "2 rows are called so: encoder.0.norm, encoder.1.norm"),
        (["loss"], "more than one model has it; --model: mine, yours"),
        (["encoder.0.nrm"], "did you mean encoder.0.norm"),
        (["init/head.weight"], "such a row is a claim"),
        (["loss", "--model", "nobody"], "there are no logs of nobody"),
        (["loss", "--step", "4"], "there are no logs to show"),
    ],
)
def test_what_is_not_one_row_is_one_sentence(out, capsys, arguments, told):
    captured = printed(capsys, 2, main([*arguments, "--out", str(out)]))
    assert told in captured.err and "Traceback" not in captured.err
    assert captured.out == ""
