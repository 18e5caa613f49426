"""The screenshot of the first Fastformer port: a gradient of 1/64 at all five classes."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builders import python
from checkout import Checkout, change

PAGE = Path(__file__).resolve().parent.parent / "docs" / "red-check.md"
CLASSES, SAMPLES = 5, 64
# The gradient of the last bias by each side's own framework, for every loss that the page names.
GRADIENTS = """
import json, sys
import {framework} as framework
logits_of = {{"sum": lambda x: x.sum() / 64, "mean": lambda x: x.mean()}}
cross_entropy = framework.nn.functional.cross_entropy
found = {{}}
for samples in (64, 1):
    labels = framework.arange(samples) % 5
    for name, loss in (logits_of | {{"cross_entropy": lambda x: cross_entropy(x, labels)}}).items():
        layer = framework.nn.Linear(7, 5)
        loss(layer(framework.ones([samples, 7]))).backward()
        found[f"{{name}} of {{samples}}"] = layer.bias.grad.tolist()
print(json.dumps(found))
"""

MODEL = "common/models/{}/{}_model.py"
LOSS = 'return cross_entropy(outputs["logits"], inputs["labels"])\n\n\ndef losses'
# A loss that never sees the labels: each logit's gradient is the same, in every sample.
DETACHED = 'return outputs["logits"].mean()\n\n\ndef losses'
# No preset's first case, which alone takes optimizer steps: the witness needs none.
CASES = ("--case", "padding", "--case", "train")


def witnesses(report):
    return {row["key"]: row["verdict"] for row in report["rows"] if "/last_bias_sum/" in row["key"]}


@cache
def gradients(framework):
    script = GRADIENTS.format(framework=framework)
    told = json.loads(python("-c", script, warm=True))
    return {name: np.array(values) for name, values in told.items()}


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_what_the_page_says_of_other_losses(framework):
    """Each number that it states, and that none of them is a cross-entropy's."""
    text = " ".join(PAGE.read_text().split())
    for said, name, number in (
        (f"leaves 1.0 at each class over {SAMPLES} samples", "sum of 64", 1.0),
        ("leaves 1/64 = 0.0156 over a single one", "sum of 1", 1 / 64),
        ("leaves 1/5 = 0.2, however many samples", "mean of 64", 1 / CLASSES),
        ("leaves 1/5 = 0.2, however many samples", "mean of 1", 1 / CLASSES),
    ):
        assert said in text
        found = gradients(framework)[name]
        np.testing.assert_allclose(found, np.full(CLASSES, number), rtol=1e-6, err_msg=name)
    for samples in (SAMPLES, 1):
        found = gradients(framework)[f"cross_entropy of {samples}"]
        assert abs(found.sum()) < 1e-6 < np.abs(found).max()


def test_a_bias_gradient_that_does_not_sum_to_zero_is_no_cross_entropys(tmp_path):
    """Planted on the Paddle side alone: its own witness says so, torch's does not."""
    copy = Checkout(tmp_path)
    change(copy.path(MODEL.format("fastformer", "paddle")), LOSS, DETACHED)
    done, report = copy.rows(4, "--model", "fastformer", "--no-report", *CASES)
    assert done.returncode == 1
    found = witnesses(report)
    assert {found[key] for key in found if key.endswith("/paddle")} == {"DIVERGED"}, found
    of_torch = {found[key] for key in found if key.endswith("/torch")}
    assert of_torch <= {"IDENTICAL", "ROUNDING"}, found


def test_both_sides_sum_to_zero(tmp_path):
    run = ("--model", "fast_transformer", "--no-report", "--case", "lm_rotary")
    done, report = Checkout(tmp_path).rows(4, *run, "--case", "classification_rotary_masked_rows")
    found = witnesses(report)
    assert done.returncode == 0 and found, done.stderr
    assert set(found.values()) <= {"IDENTICAL", "ROUNDING"}, found
