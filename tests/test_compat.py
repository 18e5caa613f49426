"""Ten models as torch has them, which run on Paddle under paddle.enable_compat(); and mistakes.

It lets `import torch` give Paddle.
"""

import sys

import pytest
from builders import a_case, a_net, ended, twincheck, write_pair
from checkout import change

from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.system.json_file import load_json

SAID = "the port ran under paddle.enable_compat(): its `import torch` is Paddle "
# It hides from the modules that a process has, and computes all the same.
IMPOSTOR = """
import sys

import paddle

for name in [name for name in sys.modules if name.split(".")[0] == "paddle"]:
    del sys.modules[name]
"""
INPUTS = '"x": rng.{}, "labels": rng.integers(0, 3, 4)'
FLOATS = "standard_normal(({})).astype(np.float32)"
INTEGERS = "integers(0, 12, ({}))"
# Name -> what x is, what __init__ makes, and what forward does.
PORTS = {
    "mlp": (
        FLOATS.format("4, 6"),
        "self.a = nn.Linear(6, 8); self.n = nn.LayerNorm(8); self.b = nn.Linear(8, 3)",
        "return self.b(F.gelu(self.n(self.a(x))))",
    ),
    "cnn": (
        FLOATS.format("4, 3, 8, 8"),
        "self.c = nn.Conv2d(3, 6, 3, padding=1); self.n = nn.GroupNorm(2, 6); "
        "self.b = nn.Linear(96, 3)",
        "return self.b(torch.flatten(F.max_pool2d(F.relu(self.n(self.c(x))), 2), 1))",
    ),
    "words": (
        INTEGERS.format("4, 7"),
        "self.e = nn.Embedding(12, 8, padding_idx=0); self.b = nn.Linear(8, 3)",
        "kept = (x != 0).unsqueeze(-1).float()\n"
        "return self.b((self.e(x) * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1.0))",
    ),
    "attention": (
        FLOATS.format("4, 5, 8"),
        "self.q = nn.Linear(8, 24); self.o = nn.Linear(8, 3)",
        "q, k, v = torch.chunk(self.q(x).unflatten(-1, (2, 12)).transpose(1, 2), 3, dim=-1)\n"
        "a = torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1)\n"
        "return self.o((a @ v).transpose(1, 2).reshape(4, 5, 8).mean(dim=1))",
    ),
    "heads": (
        FLOATS.format("4, 5, 8"),
        "self.a = nn.MultiheadAttention(8, 2, batch_first=True); self.o = nn.Linear(8, 3)",
        "return self.o(self.a(x, x, x, need_weights=False)[0].mean(dim=1))",
    ),
    "shuffled": (
        FLOATS.format("4, 3, 4, 4"),
        "self.c = nn.Conv2d(3, 24, 1); self.a = nn.PReLU(); self.b = nn.Linear(6, 3)",
        "return self.b(self.a(F.pixel_shuffle(self.c(x), 2)).mean(dim=(2, 3)))",
    ),
    "depthwise": (
        FLOATS.format("4, 6, 8, 8"),
        "self.c = nn.Conv2d(6, 6, 3, groups=6, stride=2); self.d = nn.Conv2d(6, 8, 1, bias=False); "
        "self.b = nn.Linear(8, 3)",
        "return self.b(F.adaptive_avg_pool2d(F.hardswish(self.d(self.c(x))), 1).flatten(1))",
    ),
    "residual": (
        FLOATS.format("4, 6"),
        "self.m = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.3)) "
        "for _ in range(3)]); self.b = nn.Linear(6, 3)",
        "for m in self.m:\n    x = x + m(x)\nreturn self.b(x)",
    ),
    "rms": (
        FLOATS.format("4, 5, 8"),
        "self.w = nn.Parameter(torch.ones(8)); self.b = nn.Linear(8, 3, bias=False)",
        "x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w\n"
        "a, b = x[..., :4], x[..., 4:]\n"
        "return self.b(torch.cat([-b, a], dim=-1)).sum(dim=1)",
    ),
    "series": (
        FLOATS.format("4, 3, 16"),
        "self.c = nn.Conv1d(3, 6, 3, padding=1); self.n = nn.Conv1d(6, 6, 1); "
        "self.b = nn.Linear(6, 3)",
        "h = torch.tanh(self.n(self.c(x)))\n"
        'return self.b(torch.einsum("bct,t->bc", h, torch.arange(16, dtype=h.dtype) / 16.0))',
    ),
}
# How a port says that `import torch` is Paddle.
EVERYWHERE = "import paddle\n\npaddle.enable_compat()\n"
GUARDED = """
import paddle

with paddle.use_compat_guard():
    import torch
    from torch import nn
    from torch.nn import functional as F
"""
# What is wrong in a port -> the text, what it becomes, and where it shows.
FAULTS = {
    "mlp": ("nn.LayerNorm(8)", "nn.LayerNorm(8, eps=1e-3)", "n"),
    "attention": ("dim=-1)\n        return", "dim=-2)\n        return", ""),
    "residual": ("nn.Dropout(0.3)", "nn.Dropout(0.4)", "dropout:p"),
    "cnn": ("nn.GroupNorm(2, 6)", "nn.GroupNorm(3, 6)", "n"),
}


def torch_text(name):
    """torch_model.py of a port."""
    _, made, run = PORTS[name]
    return a_net(made, run)


def texts(name, fault=False, head=EVERYWHERE):
    """The three files of a pair whose port is the reference's text."""
    torch = port = torch_text(name)
    if fault:
        assert port.count(FAULTS[name][0]) == 1
        port = port.replace(*FAULTS[name][:2])
    if head == GUARDED:
        port = port.partition("functional as F\n")[2]
    case = a_case(INPUTS.format(PORTS[name][0]))
    return {"case": case, "torch": torch, "paddle": head + port}


def of_models(folders):
    return [word for folder in folders for word in ("--model", str(folder))]


@pytest.mark.slow
def test_ten_ports_are_aligned(checkout, tmp_path):
    folders = [write_pair(tmp_path / name, **texts(name)) for name in PORTS]
    out = tmp_path / "out"
    done, report = ended(0, checkout.rows(1, *of_models(folders), "--out", str(out)))
    assert done.stdout.count(SAID) >= 1 and "ALIGNED: 10 models in step 1" in done.stdout
    assert {row["verdict"] for row in report["rows"]} <= {"IDENTICAL", "ROUNDING", "CONSTANT"}
    for name in PORTS:
        told = [
            out / "step1_forward" / name / f"forward_all_{side}.npy" for side in ("torch", "paddle")
        ]
        torch, paddle = map(read_sidecar, told)
        assert paddle.torch_is_paddle and paddle.frameworks_loaded == ["paddle"]
        assert not torch.torch_is_paddle and torch.frameworks_loaded == ["torch"]
        if sys.platform == "linux":
            assert (torch.framework_kernels, paddle.framework_kernels) == (["torch"], ["paddle"])


def test_what_is_imported_while_it_runs_is_paddle_too(checkout, tmp_path):
    """In the further runs of a red check as well, which ask the same process again."""
    folder, out = write_pair(tmp_path / "late", **texts("mlp", fault=True)), tmp_path / "out"
    is_paddle = "import torch\n\n        assert 'paddle' in torch.__file__\n        return self.b("
    change(folder / "paddle_model.py", "return self.b(", is_paddle)
    done = ended(1, checkout.check(1, "--model", str(folder), "--out", str(out)))
    assert "teacher forcing failed" not in done.stdout
    fed = list((out / "step1_forward" / "late").glob("*_paddle_fp64*.json"))
    assert len(fed) > 1 and all(
        read_sidecar(path.with_suffix(".npy")).torch_is_paddle for path in fed
    )


@pytest.mark.slow
def test_gradients_and_optimizer_steps_of_two(checkout, tmp_path):
    folders = [write_pair(tmp_path / name, **texts(name)) for name in ("attention", "residual")]
    ended(0, checkout.check(4, *of_models(folders)))


@pytest.mark.slow
def test_a_guard_and_a_port_without_one_behind_it(checkout, tmp_path):
    """A guard that one model has switched on is off for the next one in the same process."""
    plain = texts("rms", head="")
    pairs = {"guarded": texts("mlp", head=GUARDED), "on": texts("mlp"), "plain": plain}
    folders = [write_pair(tmp_path / name, **of) for name, of in pairs.items()]
    done = ended(2, checkout.check(1, *of_models(folders)))
    assert "error: step 1, plain" in done.stderr and done.stderr.count("error:") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_port_is_found(checkout, tmp_path, name):
    folder = write_pair(tmp_path / name, **texts(name, True))
    done, report = ended(1, checkout.rows(1, "--model", str(folder)))
    assert "NOT ALIGNED" in done.stdout and SAID in done.stdout
    assert FAULTS[name][2] in report["findings"][0]["key"]


@pytest.mark.slow
def test_a_reference_that_paddle_computes_is_refused(checkout, tmp_path):
    of = texts("rms")
    folder = write_pair(tmp_path / "impostor", **of | {"torch": IMPOSTOR + of["torch"]})
    done = ended(2, checkout.check(1, "--model", str(folder)))
    assert "what computed in its process was torch and paddle's own code" in done.stderr


@pytest.mark.slow
def test_a_torch_file_is_set_up_as_its_own_port(tmp_path):
    (tmp_path / "mine.py").write_text(torch_text("residual"))
    asked = ("--torch", "mine.py:Net", "--paddle", "compat", "--input", "x=float32:4,6")
    said = twincheck("new", "itself", *asked, folder=tmp_path)
    assert "ALIGNED in step 1" in said and SAID in said
    text = (tmp_path / "itself" / "paddle_model.py").read_text()
    assert EVERYWHERE.split("\n")[2] in text and "from mine import Net" in text
    record = tmp_path / "itself" / "log" / "step1_forward" / "itself" / "forward_all_paddle.json"
    assert load_json(record)["torch_is_paddle"] is True
