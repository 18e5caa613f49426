"""One thing changed in a Paddle twin turns the right step red and names the right place."""

import pytest
from checkout import Checkout

# (name, model, file in common/models/MODEL, what is replaced, by what, step, part of the first
# diverged key, part of the line that is shown)
FAULTS = [
    (
        "LayerNorm epsilon 1e-5 for 1e-12",
        "fastformer",
        "epsilon=layer_norm_eps",
        "epsilon=1e-5",
        1,
        "LayerNorm",
    ),
    (
        "tanh GELU",
        "fastformer",
        '"gelu": F.gelu',
        '"gelu": lambda x: F.gelu(x, approximate=True)',
        1,
        "encoders.0.intermediate",
    ),
    (
        "a dropped bias",
        "fastformer",
        "logits = self.att_fc2(paddle.tanh(self.att_fc1(x)))",
        "logits = self.att_fc2(paddle.tanh(paddle.matmul(x, self.att_fc1.weight)))",
        1,
        "poolers.0",
    ),
]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.mark.parametrize("name, model, old, new, step, key", FAULTS, ids=[f[0] for f in FAULTS])
def test_fault_is_caught_and_named(checkout, name, model, old, new, step, key):
    path = f"common/models/{model}/paddle_model.py"
    checkout.replace(path, old, new)
    done, report = checkout.rows(step, "--model", model)
    assert done.returncode == 1, done.stdout + done.stderr
    assert key in report["first_diverged"]
    assert report["verdict"] == "DIVERGED"
    # The place that is shown is in the changed file.
    assert path in done.stdout
    assert f"common/models/{model}/torch_model.py" in done.stdout
