"""twincheck.check of two live models: hard ones, wrong ones, and what stays as it was."""

import importlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch

import twincheck
from twincheck.extras.live.tests.live_pairs import PAIRS, One, Port, X

SCHEMA = Path(__file__).parents[3] / "docs" / "result.schema.json"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_a_hard_pair_is_aligned(name):
    *models, inputs, loss = PAIRS[name]()
    result = twincheck.check(*models, inputs, loss=loss, carry="torch", name=name)
    assert result and result.aligned and not result.findings, result
    assert result.word == "ALIGNED" and str(result).startswith("ALIGNED")
    assert [one["step"] for one in result.document["steps"]] == ([1, 3, 4] if loss else [1])


@pytest.mark.slow
def test_a_caller_that_has_imported_a_sides_script():
    """By pytest's finder for instance, whose loader knows no code to run."""
    importlib.import_module("twincheck.step1_forward.torch.forward")
    *models, inputs, _ = PAIRS["plain_tensors"]()
    assert twincheck.check(*models, inputs, carry="torch").aligned


WRONG = {
    "a hook": (
        "a_hook_changes_outputs",
        lambda p: p[1].register_forward_post_hook(lambda layer, given, out: out * 1.001),
    ),
    "a closure": (
        "lambdas_with_weights",
        lambda p: setattr(p, "turn", lambda x, v=p.a.weight: paddle.matmul(x, v, transpose_y=True)),
    ),
    "a plain tensor": ("plain_tensors", lambda p: setattr(p, "scale", paddle.to_tensor([0.1001]))),
    "train mode alone": ("in_train_mode", lambda p: setattr(p[1], "_momentum", 0.1)),
    "a setting": ("in_train_mode", lambda p: setattr(p[1], "_epsilon", 1e-3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_port_is_found(fault):
    name, plant = WRONG[fault]
    t, p, inputs, _ = PAIRS[name]()
    plant(p)
    result = twincheck.check(t, p, inputs, carry="torch")
    assert not result.aligned and not result and result.word == "NOT ALIGNED"
    # What a function holds stays float32, and float32 alone cannot tell a bug from rounding.
    verdict = "UNDECIDED" if fault == "a closure" else "DIVERGED"
    assert result.first.verdict == verdict and result.first.sentence in result.message()


def snapshot(model):
    """All that is in a model, down to the bits."""
    modules = (
        dict(model.named_modules())
        if hasattr(model, "named_modules")
        else dict(model.named_sublayers(include_self=True))
    )
    state = {n: v.numpy().tobytes() for n, v in model.state_dict().items()}
    entries = {n: vars(m) for n, m in modules.items()}
    flags = {n: (e["training"], {k: id(v) for k, v in e.items()}) for n, e in entries.items()}
    hooks = {
        (n, k): [*v.items()] for n, e in entries.items() for k, v in e.items() if "hook" in k and v
    }
    grads = {n: v.grad for n, v in model.named_parameters()}
    return state, flags, hooks, grads


def surroundings():
    """Return what a process has beside its models, that a run could change."""
    streams = sys.stdin, sys.stdout, sys.stderr, tuple(sys.path), tuple(sys.meta_path), os.getcwd()
    numbers = torch.get_rng_state().numpy().tobytes(), str(paddle.get_rng_state()[0].__getstate__())
    numbers += (np.random.get_state()[1].tobytes(), torch.get_num_threads())
    numbers += (torch.get_default_dtype(), paddle.get_default_dtype(), torch.is_grad_enabled())
    return streams, numbers, dict(os.environ)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in_train_mode", "generators_of_the_users", "a_lock_and_a_file"])
def test_nothing_of_the_callers_is_changed(name):
    t, p, inputs, loss = PAIRS[name]()
    before = snapshot(t), snapshot(p), surroundings()
    twincheck.check(t, p, inputs, loss=loss)
    assert (snapshot(t), snapshot(p), surroundings()) == before


@pytest.mark.slow
def test_weights_that_differ_are_the_finding():
    t, p, inputs, _ = PAIRS["plain_tensors"]()
    result = twincheck.check(t, p, inputs)
    assert not result.aligned and len(result.findings) == 1
    said = result.first.sentence
    assert "2 of the Paddle model's weights are not torch's, such as a.weight" in said
    with torch.no_grad():
        t.a.weight.copy_(torch.from_numpy(p.a.weight.numpy().T))
        t.a.bias.copy_(torch.from_numpy(p.a.bias.numpy()))
    assert twincheck.check(t, p, inputs).aligned
    with torch.no_grad():
        t.a.bias[0] = float(np.nextafter(np.float32(t.a.bias[0].item()), np.float32(9)))
    assert "a weight is not torch's, such as a.bias" in twincheck.check(t, p, inputs).first.sentence


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.lin(x).relu())


class NetPort(paddle.nn.Layer):
    """Its names are others: which is which the values tell."""

    def __init__(self, epsilon=1e-3):
        super().__init__()
        self.dense = paddle.nn.Linear(4, 8)
        self.layer_norm = paddle.nn.LayerNorm(8, epsilon=epsilon)

    def forward(self, inputs):
        return self.layer_norm(paddle.nn.functional.relu(self.dense(inputs)))


@pytest.mark.slow
def test_a_finding_has_both_lines_where_the_layer_is_built(tmp_path):
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is validated with jsonschema")
    with pytest.raises(AssertionError) as failed:
        twincheck.assert_aligned(Net(), NetPort(), X, carry="torch", report=tmp_path)
    told = str(failed.value)
    assert "LayerNorm's epsilon is 1e-05 in torch and 0.001 in Paddle" in told
    for text in ("torch.nn.LayerNorm(8)", "paddle.nn.LayerNorm(8, epsilon"):
        assert f"norm = {text}" in told
    result = twincheck.check(Net(), NetPort(), X, carry="torch", report=tmp_path)
    first = result.first
    lines = Path(__file__).read_text().splitlines()
    assert "torch.nn.LayerNorm(8)" in lines[first.torch.line - 1]
    assert "paddle.nn.LayerNorm(8, epsilon" in lines[first.paddle.line - 1]
    assert first.numbers["gap"] > first.numbers["allowed"] and first.module == "norm"
    jsonschema.validate(json.loads(result.to_json()), json.loads(SCHEMA.read_text()))
    page = result._repr_html_()
    assert "NOT ALIGNED" in page and "LayerNorm(8, epsilon" in page and result.page.is_file()
    right = twincheck.check(Net(), NetPort(1e-5), X, carry="torch")
    assert right.aligned and right.summary.startswith("ALIGNED in step 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "inputs", "more", "said"),
    [
        ((NetPort(), Net()), X, {}, "and no torch.nn.Module: give torch's model first"),
        ((Net(), Net()), X, {}, ".Net, and no paddle.nn.Layer: give torch's"),
        ((Net(), NetPort()), {}, {}, "inputs: there is no array among them"),
        ((Net(), NetPort()), {"x": "text"}, {}, "inputs: there is no array among them"),
        ((Net(), NetPort()), (X, None), {}, "give the inputs by name, as a dict"),
        ((Net(), NetPort()), X, {"carry": "paddle"}, "carry='paddle'"),
        ((Net(), NetPort()), X, {"loss": torch.sum}, "give two functions"),
        ((Net(), NetPort()), {"y": X}, {}, "missing 1 required positional argument: 'x'"),
        ((Net(), NetPort()), X[:, :3], {}, "mat1 and mat2 shapes cannot be multiplied"),
        ((Net(), paddle.nn.Linear(4, 8)), X, {}, "norm"),
        # Of a red step there is a finding, which is not what stood in the way.
        ((Net(), NetPort()), X, {"loss": (lambda y: y.no_loss,) * 2}, "no attribute 'no_loss'"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(models, inputs, more, said):
    with pytest.raises(twincheck.NotChecked) as raised:
        twincheck.check(*models, inputs, **more)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def crash(self, x):
    os.kill(os.getpid(), 11)


class Lonely(One):
    def __deepcopy__(self, memo):
        raise RuntimeError("there is but one of me")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (One(crash), "torch worker .*was ended by SIGSEGV"),
        (Lonely(crash), "a Lonely, cannot be copied, which .*Error: there is but one of me"),
    ],
    ids=["crashes", "cannot be copied"],
)
def test_a_side_that_cannot_run_is_a_sentence(model, said):
    with pytest.raises(twincheck.NotChecked, match=said):
        twincheck.check(model, Port(lambda self, x: x), X, carry="torch")


@pytest.mark.slow
def test_a_side_that_hangs_is_a_sentence(monkeypatch):
    monkeypatch.setattr("twincheck.extras.live.calls.PATIENCE_S", 3)
    lock = threading.Lock()

    def wait(self, x):
        with lock:
            return x

    with (
        lock,
        pytest.raises(twincheck.NotChecked, match="the torch side, a fork .*nothing for 3 s"),
    ):
        twincheck.check(One(wait), Port(lambda self, x: x), X, carry="torch")


def test_without_fork_it_says_so(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(twincheck.NotChecked, match="need fork, which this system lacks"):
        twincheck.check(Net(), NetPort(), X)


ALONE = """
    import sys, numpy as np, torch, paddle, twincheck
    torch.ones(300, 300) @ torch.ones(300, 300)  # its threads run
    t, p = torch.nn.Linear(4, 3), paddle.nn.Linear(4, 3)
    result = twincheck.check(t, p, np.ones((2, 4), np.float32), carry="torch")
    ours = [n for n in sys.modules if n.startswith("twincheck.") and ".live" not in n]
    ours = {name.split(".")[1] for name in ours}
    foreign = [n for n in ("common", "tools", "extras", "faults") if n in sys.modules]
    print(result.aligned, *sorted(ours), foreign)
"""


@pytest.mark.slow
def test_no_module_of_ours_meets_the_callers(tmp_path):
    run = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(ALONE)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.stdout.split("\n")[-2] == "True common extras []", done


class OnAGpu(torch.nn.Linear):
    """A model that names the device where it makes a tensor; a plain attribute is no weight."""

    def __init__(self, device):
        super().__init__(4, 3)
        self.device, self.scale = device, torch.full([3], 0.5)

    def forward(self, x):
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        return super().forward(x) * self.scale * torch.full([3], 2.0, device=device)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["", "cuda"])
def test_a_model_that_names_a_gpu_gets_the_cpu_in_a_fork(device):
    port, x = paddle.nn.Linear(4, 3), np.ones((2, 4), np.float32)
    assert twincheck.check(OnAGpu(device), port, x, carry="torch").aligned


def test_a_copy_for_the_cpu_takes_plain_tensors_along():
    from twincheck.extras.live.copies import on_cpu

    model = torch.nn.Linear(2, 2)
    model.held = {"one": [torch.ones(1, device="meta")], "two": "a text"}
    moved = []
    cpu = torch.Tensor.cpu
    try:
        torch.Tensor.cpu = lambda self: moved.append(self.device.type) or torch.zeros(self.shape)
        on_cpu(model, torch)
    finally:
        torch.Tensor.cpu = cpu
    assert "meta" in moved and model.held["one"][0].device.type == "cpu"
    assert model.held["two"] == "a text"
