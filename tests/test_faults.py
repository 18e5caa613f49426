"""One thing changed in a Paddle twin turns the right step red and names the right place."""

import pytest
from checkout import Checkout

# name, model, what is replaced in its paddle_model.py, by what, the step that must turn red, what
# the first diverged key must hold
FAULTS = [
    (
        "LayerNorm epsilon 1e-5 for 1e-12",
        "fastformer",
        "epsilon=layer_norm_eps",
        "epsilon=1e-5",
        1,
        "encoders.0.attention.output.LayerNorm",
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
        "logits = self.att_fc2(paddle.tanh(self.att_fc1(x) - self.att_fc1.bias))",
        1,
        "poolers.0.att_fc2:in/0",
    ),
    (
        "a layer written out, without its bias",
        "fast_transformer",
        "self.dense_linear(",
        "(lambda x: paddle.matmul(x, self.dense_linear.weight))(",
        1,
        "dense_linear:in/0",
    ),
    (
        "an unstable argsort",
        "reformer",
        "paddle.argsort(buckets, axis=-1, stable=True)",
        "paddle.argsort(buckets, axis=-1, stable=False)",
        1,
        "layers.0.attention.self_attention.sorted_order",
    ),
    (
        "the gradient of the un-sorted logits replaced",
        "reformer",
        'tap(self, "logits_unsorted", unsort(logits, undo_order))',
        'tap(self, "logits_unsorted", unsort(logits.detach(), undo_order) + 0.0 * logits)',
        4,
        "grad_of/reformer.encoder.layers.2.attention.self_attention.logits_sorted",
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
    # A layer that is not called any more is a probe that one side does not have.
    assert report["verdict"] == ("INVALID" if "written out" in name else "DIVERGED")
    assert f"common/models/{model}/torch_model.py" in done.stdout
    assert path in done.stdout or "missing on the paddle side" in done.stdout
