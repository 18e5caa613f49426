"""The screenshot of the first Fastformer port: a gradient of 1/64 at all five classes."""

from checkout import Checkout, change

MODEL = "common/models/{}/{}_model.py"
LOSS = 'return cross_entropy(outputs["logits"], inputs["labels"])\n\n\ndef losses'
# A loss that never sees the labels: each logit's gradient is the same, in every sample.
DETACHED = 'return outputs["logits"].mean()\n\n\ndef losses'
# No preset's first case, which alone takes optimizer steps: the witness needs none.
CASES = ("--case", "padding", "--case", "train")


def witnesses(report):
    return {row["key"]: row["verdict"] for row in report["rows"] if "/last_bias_sum/" in row["key"]}


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
