"""Models as torch has them, which run on Paddle under paddle.enable_compat(); and a mistake.

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
INPUTS = '"x": rng.standard_normal(({})).astype(np.float32), "labels": rng.integers(0, 3, 4)'
# Name -> the shape of x, what __init__ makes, and what forward does.
PORTS = {
    "mlp": (
        "4, 6",
        "self.a = nn.Linear(6, 8); self.n = nn.LayerNorm(8); self.b = nn.Linear(8, 3)",
        "return self.b(F.gelu(self.n(self.a(x))))",
    ),
    "attention": (
        "4, 5, 8",
        "self.q = nn.Linear(8, 24); self.o = nn.Linear(8, 3)",
        "q, k, v = torch.chunk(self.q(x).unflatten(-1, (2, 12)).transpose(1, 2), 3, dim=-1)\n"
        "a = torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1)\n"
        "return self.o((a @ v).transpose(1, 2).reshape(4, 5, 8).mean(dim=1))",
    ),
    "residual": (
        "4, 6",
        "self.m = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.3)) "
        "for _ in range(3)]); self.b = nn.Linear(6, 3)",
        "for m in self.m:\n    x = x + m(x)\nreturn self.b(x)",
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


def torch_text(name):
    """torch_model.py of a port."""
    _, made, run = PORTS[name]
    return a_net(made, run)


def texts(name, head=EVERYWHERE):
    """The three files of a pair whose port is the reference's text."""
    torch = port = torch_text(name)
    if head == GUARDED:
        port = port.partition("functional as F\n")[2]
    case = a_case(INPUTS.format(PORTS[name][0]))
    return {"case": case, "torch": torch, "paddle": head + port}


def of_models(folders):
    return [word for folder in folders for word in ("--model", str(folder))]


@pytest.mark.slow
def test_ports_are_aligned(checkout, tmp_path):
    folders = [write_pair(tmp_path / name, **texts(name)) for name in PORTS]
    out = tmp_path / "out"
    done, report = ended(0, checkout.rows(1, *of_models(folders), "--out", str(out)))
    assert done.stdout.count(SAID) >= 1 and "ALIGNED: 3 models in step 1" in done.stdout
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
    folder, out = write_pair(tmp_path / "late", **texts("mlp")), tmp_path / "out"
    change(folder / "paddle_model.py", "nn.LayerNorm(8)", "nn.LayerNorm(8, eps=1e-3)")
    is_paddle = "import torch\n\n        assert 'paddle' in torch.__file__\n        return self.b("
    change(folder / "paddle_model.py", "return self.b(", is_paddle)
    done, report = ended(1, checkout.rows(1, "--model", str(folder), "--out", str(out)))
    assert "teacher forcing failed" not in done.stdout and SAID in done.stdout
    assert report["findings"][0]["key"] == "n"
    fed = list((out / "step1_forward" / "late").glob("*_paddle_fp64*.json"))
    assert len(fed) > 1 and all(
        read_sidecar(path.with_suffix(".npy")).torch_is_paddle for path in fed
    )


@pytest.mark.slow
def test_a_guard_and_a_port_without_one_behind_it(checkout, tmp_path):
    """A guard that one model has switched on is off for the next one in the same process."""
    plain = texts("residual", head="")
    pairs = {"guarded": texts("mlp", head=GUARDED), "on": texts("mlp"), "plain": plain}
    folders = [write_pair(tmp_path / name, **of) for name, of in pairs.items()]
    done = ended(2, checkout.check(1, *of_models(folders)))
    assert "error: step 1, plain" in done.stderr and done.stderr.count("error:") == 1


@pytest.mark.slow
def test_a_reference_that_paddle_computes_is_refused(checkout, tmp_path):
    of = texts("residual")
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
