"""Ports that run under paddle.enable_compat(), which lets `import torch` give Paddle."""

import subprocess
import sys

import pytest
from builders import ended
from checkout import Checkout
from compat_ports import EVERYWHERE, FAULTS, GUARDED, NAMES, files, torch_text

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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("compat"))


def write(folder, texts):
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return str(folder)


def of_models(folders):
    return [word for folder in folders for word in ("--model", folder)]


@pytest.mark.slow
def test_ten_ports_are_aligned(checkout, tmp_path):
    folders = [write(tmp_path / name, files(name)) for name in NAMES]
    out = tmp_path / "out"
    done, report = ended(0, checkout.rows(1, *of_models(folders), "--out", str(out)))
    assert done.stdout.count(SAID) >= 1 and "ALIGNED: 10 models in step 1" in done.stdout
    assert {row["verdict"] for row in report["rows"]} <= {"IDENTICAL", "ROUNDING", "CONSTANT"}
    for name in NAMES:
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
    texts = files("mlp", fault=True)
    port = texts["paddle_model.py"]
    texts["paddle_model.py"] = port.replace(
        "return self.b(",
        "import torch\n\n        assert torch.__name__ == 'torch'\n        "
        "assert 'paddle' in torch.__file__\n        return self.b(",
    )
    assert texts["paddle_model.py"] != port
    folder, out = write(tmp_path / "late", texts), tmp_path / "out"
    done = ended(1, checkout.check(1, "--model", folder, "--out", str(out)))
    assert "teacher forcing failed" not in done.stdout
    fed = list((out / "step1_forward" / "late").glob("*_paddle_fp64*.json"))
    assert len(fed) > 1 and all(
        read_sidecar(path.with_suffix(".npy")).torch_is_paddle for path in fed
    )


@pytest.mark.slow
def test_gradients_and_optimizer_steps_of_two(checkout, tmp_path):
    folders = [write(tmp_path / name, files(name)) for name in ("attention", "residual")]
    ended(0, checkout.check(4, *of_models(folders)))


@pytest.mark.slow
def test_a_guard_and_a_port_without_one_behind_it(checkout, tmp_path):
    """What one model has switched on is off for the next one in the same process."""
    plain = files("rms") | {"paddle_model.py": torch_text("rms")}
    pairs = {"guarded": files("mlp", head=GUARDED), "on": files("mlp"), "plain": plain}
    folders = [write(tmp_path / name, texts) for name, texts in pairs.items()]
    done = ended(2, checkout.check(1, *of_models(folders)))
    assert "error: step 1, plain" in done.stderr and done.stderr.count("error:") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_port_is_found(checkout, tmp_path, name):
    done, report = ended(1, checkout.rows(1, "--model", write(tmp_path / name, files(name, True))))
    where = FAULTS[name][2]
    assert "NOT ALIGNED" in done.stdout and SAID in done.stdout
    assert where in report["findings"][0]["key"]


@pytest.mark.slow
def test_a_reference_that_paddle_computes_is_refused(checkout, tmp_path):
    texts = files("rms")
    texts["torch_model.py"] = IMPOSTOR + texts["torch_model.py"]
    done = ended(2, checkout.check(1, "--model", write(tmp_path / "impostor", texts)))
    assert "what computed in its process was torch and paddle's own code" in done.stderr


@pytest.mark.slow
def test_a_torch_file_is_set_up_as_its_own_port(tmp_path):
    (tmp_path / "mine.py").write_text(torch_text("residual"))
    asked = ["--torch", "mine.py:Net", "--paddle", "compat", "--input", "x=float32:4,6"]
    command = [sys.executable, "-m", "twincheck", "new", "itself", *asked]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ALIGNED in step 1" in done.stdout and SAID in done.stdout
    text = (tmp_path / "itself" / "paddle_model.py").read_text()
    assert EVERYWHERE.split("\n")[2] in text and "from mine import Net" in text
    record = tmp_path / "itself" / "log" / "step1_forward" / "itself" / "forward_all_paddle.json"
    assert load_json(record)["torch_is_paddle"] is True
