"""The two sides under two Pythons: --torch-python and --paddle-python.

The tests make two environments out of the one that runs them, by links: each lacks the other's
framework and what the workbench itself needs.  `make environments` installs real ones
with other versions (torch 2.4, Paddle 2.6.2, Python 3.10, …), and runs the rest.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import SMALL_CNN, ended
from packaged import Installed, build_wheel

from tools import install
from twincheck.common.logs.independence import two_environments
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.interpreters import _variables, interpreter
from twincheck.common.system.processes import NEEDED, Process, how_it_ended

PAIR = SMALL_CNN
INSTALLED = ROOT / ".environments"
REQUIREMENTS = {
    "torch": ("torch==2.13.0", "numpy==1.26.4"),
    "paddle": ("paddlepaddle==2.6.2", "numpy>=2.0,<3"),
}
# Python -> what the package is tried with there (docs/environments.md).
OF_THE_PACKAGE = {
    "3.10": ("torch==2.4.1", "paddlepaddle==3.0.0", "numpy==1.26.4"),
    "3.11": ("torch==2.13.0", "paddlepaddle==3.2.2", "numpy==1.26.4"),
    "3.12": ("torch==2.8.0", "paddlepaddle==3.1.1", "numpy>=2,<3"),
    "3.13": ("torch==2.8.0", "paddlepaddle==3.3.1", "numpy>=2,<3"),
}
# What this process needs and a side does not.
NOT_NEEDED = ("reprod_log", "rich", "sklearn", "scipy", "pandas", "matplotlib", "joblib")
PROGRESS = """import json, os
print("@progress", json.dumps(["a model", None, "float32", os.environ["A_VARIABLE"]]))"""


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    """Side -> a Python that has that side's framework and not the other's."""
    folder = tmp_path_factory.mktemp("two environments")
    others = {"torch": "paddle", "paddle": "torch"}
    return {
        side: Installed(folder / f"{side} env", None, (other, *NOT_NEEDED)).python
        for side, other in others.items()
    }


def options(pythons) -> list[str]:
    return [f"--{side}-python={python}" for side, python in pythons.items()]


def script(path: Path, text: str) -> Path:
    """A shell script that stands for a Python."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_a_worker_needs_its_framework_and_numpy_and_nothing_else(checkout, pythons, tmp_path):
    for side, other in (("torch", "paddle"), ("paddle", "torch")):
        for absent in (other, *NOT_NEEDED):
            command = [str(pythons[side]), "-c", f"import {absent}"]
            assert subprocess.run(command, capture_output=True, cwd=tmp_path).returncode == 1
    out = tmp_path / "out"
    words = ("--model", str(PAIR), "--out", str(out), "--no-report", *options(pythons))
    done, report = ended(0, checkout.rows(1, *words))
    assert report["verdict"] in ("ROUNDING", "CONSTANT")  # of BatchNorm in train mode
    assert "two environments: torch 2.13.0" in done.stdout and "NumPy" in done.stdout
    for side, python in pythons.items():
        log = out / "step1_forward" / "small_cnn" / f"forward_all_{side}.json"
        sidecar = json.loads(log.read_text())
        assert sidecar["environment"]["executable"] == str(python)
        assert Path(sidecar["framework_file"]).is_relative_to(python.parent.parent)
        assert sidecar["frameworks_loaded"] == [side]


def test_one_python_that_is_named_for_both_sides_is_no_news():
    one = Sidecar(framework="torch", environment={"executable": "/a", "numpy": "2.0"})
    other = Sidecar(framework="paddle", environment={"executable": "/b", "numpy": "1.26"})
    assert two_environments(one, one) == []
    (note,) = two_environments(one, other)
    assert note.startswith("two environments: torch ") and note.endswith("NumPy 1.26")
    assert two_environments(Sidecar(), Sidecar()) == []


@pytest.mark.parametrize(
    "given, expected",
    [
        ("absent", "there is no such file"),
        ("folder", "this is a folder; name its Python, such as"),
        ("plain", "cannot be run: Permission denied"),
        ("wordy", "does not answer like a Python: I am no Python"),
        ("old", "is Python 3.8.18; a side needs 3.10 or newer"),
        ("bare", "has no torch and no numpy: install them there, or name another Python"),
    ],
)
def test_a_python_that_will_not_do_is_refused_in_a_sentence(tmp_path, given, expected):
    path = tmp_path / given
    if given == "folder":
        path.mkdir()
    elif given == "plain":
        path.write_text("")
    elif given != "absent":
        answers = {
            "wordy": "echo I am no Python >&2; exit 3",
            "old": """echo '{"python": "3.8.18"}'""",
            "bare": """echo '{"python": "3.12.1"}'""",
        }
        script(path, answers[given])
    with pytest.raises(UserError) as refused:
        interpreter("torch", str(path))
    assert str(refused.value).startswith(f"--torch-python {path}")
    assert expected in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_framework_that_crashes_on_import_is_named(checkout, tmp_path):
    broken = tmp_path / "broken" / "paddle"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libcublas.so.11: no such object')\n")
    text = f'PYTHONPATH="{broken.parent}:$PYTHONPATH" exec "{sys.executable}" "$@"'
    path = script(tmp_path / "python", text)
    words = ("--model", str(PAIR), f"--paddle-python={path}", "--no-report")
    told = ended(2, checkout.check(1, *words)).stderr
    said = "the paddle worker ended with status 1: ImportError: libcublas.so.11: no such object"
    assert f"{said} (run by {path})" in told and "Traceback" not in told


@pytest.mark.parametrize(
    "status, stderr, expected",
    [
        (-11, ["", "FatalError: `Segmentation fault` is", "  [TimeInfo: 1]"], "SIGSEGV: F"),
        (-9, [], "was ended by SIGKILL: no message"),
        (1, ["Traceback", "ValueError: x", "more"], "ended with status 1: ValueError: x"),
    ],
)
def test_how_a_process_ended(status, stderr, expected):
    assert expected in how_it_ended(status, stderr)


def test_paddle_2_gets_pythons_own_zlib_first(monkeypatch):
    libz = "/l/libz.so.1"
    assert _variables("paddle", {"paddle": "2.6.2", "libz": libz}) == {"LD_PRELOAD": libz}
    assert _variables("paddle", {"paddle": "2.6.2"}) == {}  # built in
    assert _variables("paddle", {"paddle": "3.3.1", "libz": "/l/libz.so.1"}) == {}
    assert _variables("torch", {"torch": "2.13.0", "libz": "/l/libz.so.1"}) == {}
    monkeypatch.setitem(NEEDED, sys.executable, {"A_VARIABLE": "first"})
    monkeypatch.setenv("A_VARIABLE", "second")
    said = []
    assert Process([sys.executable, "-c", PROGRESS], said.append).wait() == 0
    assert [str(told) for told in said] == ["a model float32 first:second"]


# ---- with other versions ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed_pythons():
    """Return Pythons with REQUIREMENTS, installed by pip into .environments, where they stay."""
    if not os.environ.get("WORKBENCH_ENVIRONMENTS"):
        pytest.skip("installs 2 GB of other versions: `make environments` runs it")
    return {
        side: installed(INSTALLED / side, sys.executable, requirements)
        for side, requirements in REQUIREMENTS.items()
    }


def installed(folder, base, requirements):
    """The Python of an environment with just these requirements, made where it is not there."""
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    if not stamp.is_file() or json.loads(stamp.read_text()) != list(requirements):
        subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install"]
        torch = [one for one in requirements if one.startswith("torch==")]
        index = install.torch_index() if torch else None
        if index is not None:
            subprocess.run([*pip, "--no-deps", "--index-url", index, *torch], check=True)
        subprocess.run([*pip, *requirements], check=True)
        stamp.write_text(json.dumps(requirements))
    return python


OF_MODELS = ["--model", str(PAIR), "--model", "all"]
OF_DATA = ["--model", "fast_transformer"]


@pytest.mark.parametrize(
    "step, asked",
    [
        (1, OF_MODELS),
        (3, OF_MODELS),
        (4, OF_MODELS),
        (2, OF_DATA),
        (5, [*OF_DATA, "--epochs", "1"]),
    ],
)
def test_other_versions(checkout, installed_pythons, step, asked):
    done, report = ended(0, checkout.rows(step, *asked, *options(installed_pythons)))
    assert report["rows"] and "NumPy 1.26.4; paddle 2.6.2 on Python" in done.stdout


@pytest.mark.parametrize("version", OF_THE_PACKAGE)
def test_the_package_with_other_versions(version, tmp_path):
    if not os.environ.get("WORKBENCH_ENVIRONMENTS"):
        pytest.skip("installs 6 GB of other versions: `make environments` runs it")
    known = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    base = next(map(str, known), None) or shutil.which(f"python{version}")
    if base is None:
        pytest.skip(f"no Python {version} on PATH or under ~/.pyenv/versions")
    python = installed(INSTALLED / f"python{version}", base, OF_THE_PACKAGE[version])
    package = [str(build_wheel(tmp_path))]
    subprocess.run([python, "-m", "pip", "install", *package], check=True)
    subprocess.run([python, "-m", "pip", "install", "--force-reinstall", "--no-deps", *package])
    for step in (1, 3, 4):
        command = [python, "-m", "twincheck", f"step{step}", "--no-report"]
        command += [*OF_MODELS, "--out", "out"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
