"""Runs on a GPU, where there is none: torch's device `meta` stands for it, or a number of GPUs."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from builders import python

from twincheck.common.check import reuse
from twincheck.common.check_all import all_steps
from twincheck.common.logs.independence import two_environments
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.sides.backend_torch import TorchSide
from twincheck.common.sides.noise_in_torch import Moved
from twincheck.common.system.errors import UserError

# What a worker does before it runs a model, then a model whose backward pass makes tensors.
SCRIPT = """
import json, sys
import numpy as np
import torch
from twincheck.common.pair.request import RunRequest
from twincheck.common.sides import backend_torch
from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.worker import Script, Worker

Worker(Script(side, "x", None))._prepare(RunRequest(model="x"))
backend_torch._GPU, seen = "meta", {}
side.use_device(sys.argv[1])
seen["made"] = [torch.arange(3), torch.empty(2), torch.nn.Linear(2, 3).weight, torch.zeros(2)]
seen["made"] += [torch.rand(2), torch.randperm(3), torch.tensor([1.0]), side.tensor(np.ones(2))]

class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        seen["in backward"] = [torch.arange(3), side.tensor(np.ones(2)), gradient]
        return gradient

moved = torch.nn.BatchNorm1d(3)
moved.register_buffer("table", torch.FloatTensor(3))
x = torch.ones(2, requires_grad=True)
Again.apply(x).sum().backward()
placed = side.on_gpu(moved) if sys.argv[1] == "gpu" else moved
seen["model"] = [*placed.parameters(), *placed.buffers()]
print(json.dumps({name: sorted({v.device.type for v in vs}) for name, vs in seen.items()}))
print(torch._C._is_multithreading_enabled())
"""


@pytest.mark.slow
@pytest.mark.parametrize("device, where", [("gpu", "meta"), ("cpu", "cpu")])
def test_all_that_a_run_makes_is_on_its_device(device, where):
    """Behind instruments, in a backward pass, from arrays, and whatever a constructor names."""
    told, threads = python("-c", SCRIPT, device).splitlines()
    assert json.loads(told) == {name: [where] for name in ("made", "in backward", "model")}
    assert threads == str(device == "cpu")


@pytest.mark.parametrize(
    "device, on", [("cpu", "cpu cpu"), ("torch-gpu", "gpu cpu"), ("paddle-gpu", "cpu gpu")]
)
def test_a_side_is_asked_for_its_own_device(device, on):
    request = RunRequest(model="x", device=device)
    assert [request.of_side(side).device for side in ("torch", "paddle")] == on.split()


@pytest.mark.parametrize(
    "found, needed, words",
    [
        (0, "1", "torch finds no GPU here; with --device paddle-gpu paddle alone"),
        (1, "2", "torch finds 1 of 2 GPUs, one for each process, here"),
        (1, "1", ""),
    ],
)
def test_without_enough_gpus_it_is_a_sentence(monkeypatch, found, needed, words):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", needed)
    used = []
    side = TorchSide()
    side.CUDA, side.use_device = SimpleNamespace(device_count=lambda: found), used.append
    side.set_default_dtype = side.seed = lambda _: None
    if words:
        with pytest.raises(UserError) as refused:
            side.set_up("float32", "gpu", 0)
        assert words in str(refused.value) and "\n" not in str(refused.value)
    else:
        side.set_up("float32", "gpu", 0)
    side.set_up("float32", "cpu", 0)  # needs none
    assert used == ["cpu"] if words else ["gpu", "cpu"]


@pytest.mark.parametrize("rounds", [False, True])
def test_a_sidecar_tells_by_a_product_whether_tf32_is_on(rounds):
    def matmul(one, other):
        one = (one.view(torch.int32) & ~0x1FFF).view(torch.float32) if rounds else one
        return one @ other

    lib = SimpleNamespace(float32=torch.float32, full=torch.full, eye=torch.eye, matmul=matmul)
    side = TorchSide()
    side.lib, side.CUDA = lib, SimpleNamespace(get_device_name=lambda: "H200")
    assert side.of_gpu() == {"gpu": "H200", "tf32": "on" if rounds else "off"}


def test_what_ran_on_a_gpu_is_noted_and_so_is_tf32():
    one = Sidecar(framework="torch", environment={"executable": "/a", "gpu": "H200", "tf32": "off"})
    other = Sidecar(framework="paddle", environment={"executable": "/a"})
    (note,) = two_environments(one, other)
    assert note.startswith("two environments: torch") and ", H200; paddle" in note
    rounding = replace(one, environment=one.environment | {"tf32": "on"})
    noted = two_environments(rounding, other)
    assert len(noted) == 2 and "NVIDIA_TF32_OVERRIDE=0" in noted[1]


def test_logs_of_another_setting_of_tf32_are_not_reused(monkeypatch, tmp_path):
    pair = load_pair("fastformer")
    monkeypatch.setattr(reuse, "versions", lambda python: {})
    step, *_ = all_steps()

    def key(device):
        return reuse.reference_key(step, pair, RunRequest(model="x", device=device), "p", tmp_path)

    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    off = key("gpu")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert key("gpu")["environment"] != off["environment"]


def test_optimizers_of_a_gpu_are_moved_too():
    """There torch's Adam writes into lists of tensors, by operators that return nothing."""
    found = []
    for foreach in (False, True):
        weight = torch.ones(50, dtype=torch.float64, requires_grad=True)
        weight.grad = torch.linspace(0.1, 1.0, 50, dtype=torch.float64)
        rule = torch.optim.SGD([weight], lr=0.3, foreach=foreach)
        with torch.no_grad(), Moved(seed=1, size=2.0**-24):
            rule.step()
        exact = 1.0 - 0.3 * weight.grad
        found.append(float((weight.detach() - exact).abs().max()))
    assert all(2.0**-28 < off < 2.0**-20 for off in found), found
