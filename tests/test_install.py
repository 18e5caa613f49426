"""`make install` installs what pyproject.toml pins; no test asks a network."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from checkout import Checkout, change
from packaging.requirements import Requirement
from pages import blocks

from tools import install
from twincheck.common.check.options import Parser
from twincheck.common.check_all import all_steps

ROOT = Path(__file__).resolve().parent.parent


def test_every_extra_can_be_installed():
    """Offline: what `make install` made meets each of them, so that each name and pin exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {"paddlepaddle==3.3.1", "torch==2.13.0"} <= set(extras["frameworks"])
    wanted = map(Requirement, [*project["dependencies"], *sum(extras.values(), [])])
    for one in wanted:
        there = one.marker and not one.marker.evaluate() or metadata.version(one.name)
        assert there is True or one.specifier.contains(there, prereleases=True), str(one)


def test_the_block_for_a_gpu_can_be_copied():
    """Two environments, each with one framework, at the versions that the checks are measured
    with; its last line is one that the check takes."""
    page = (ROOT / "docs" / "environments.md").read_text()
    section = page.partition("## On a GPU\n")[2].partition("\n## ")[0]
    lines = [line for line in blocks(section) if line]
    made = [shlex.split(line)[3] for line in lines if " -m venv " in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    frameworks = project["optional-dependencies"]["frameworks"]
    pins = {Requirement(r).name: r for r in project["dependencies"] + frameworks}
    gpu = pins["paddlepaddle"].replace("paddlepaddle", "paddlepaddle-gpu")
    pip = {words[0]: words[4:] for words in map(shlex.split, lines) if words[1:3] == ["-m", "pip"]}
    index = "https://www.paddlepaddle.org.cn/packages/stable/cu126/"
    assert pip == {
        f"{made[0]}/bin/python": [pins["numpy"], pins["torch"]],
        f"{made[1]}/bin/python": [pins["numpy"], gpu, "--extra-index-url", index],
    }
    program, check, *options = shlex.split(lines[-1])
    assert (program, check) == (".venv/bin/python", "step1_forward/check_step1.py")
    parsed = Parser("").take(*all_steps()[0].takes).parse_args(options)
    assert parsed.device == "gpu" and [parsed.torch_python, parsed.paddle_python] == list(pip)


@pytest.fixture
def dead():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


def test_an_index_that_was_named_and_will_not_do_is_a_sentence(monkeypatch, capsys, dead):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "TORCH_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(install, "TORCH_CPU_INDEX", dead)
    if sys.platform == "linux":  # elsewhere PyPI's torch has no CUDA
        assert install.torch_index() is None and "6 GB instead of 2" in capsys.readouterr().out
    for url, said in ((dead, "refused"), ("whl/cpu", "unknown url type")):
        monkeypatch.setenv("TORCH_INDEX", url)
        with pytest.raises(OSError, match=f"^TORCH_INDEX={url}: {url}/torch/ cannot .*{said}"):
            install.torch_index()
        assert capsys.readouterr().out == ""


# ---- the checkout in .venv ----------------------------------------------------------------------

FOUND = """
import importlib.util as u
names = "common tools extras faults tests step1_forward setup".split()
print(*(name for name in names if u.find_spec(name)))
import twincheck.common.system.checkout as c
print(c.ROOT)
"""


def called(command: list, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """A command in a folder, without the path and the indexes that these tests have."""
    names = {"PYTHONPATH", "PIP_EXTRA_INDEX_URL", "http_proxy", "HTTP_PROXY", "TORCH_INDEX"}
    names |= {"MAKEFLAGS"}
    values = {name: value for name, value in os.environ.items() if name not in names} | environment
    return subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True)


@pytest.fixture
def in_place(tmp_path):
    """A checkout in a path with a space, and an environment that has all packages and pip (they
    are those of this one), but not the checkout, as an interrupted installation leaves it. Few
    packages are named, since pip looks at each."""
    root = Checkout(tmp_path / "my checkouts").root
    for name in ("setup.py", "README.md", "Makefile"):
        shutil.copy(ROOT / name, root)
    for name in ("docs", "examples", "tools"):
        (root / name).mkdir()
    shutil.copy(ROOT / "tools" / "install.py", root / "tools")
    text, few = (root / "pyproject.toml").read_text(), {"dependencies": '"rich"'}
    few |= {"frameworks": '"torch==2.13.0"', "dev": '"setuptools>=77"'}
    for name, pins in few.items():
        text, times = re.subn(rf"(?ms)^{name} = \[\n.*?^\]", f"{name} = [{pins}]", text)
        assert times == 1
    (root / "pyproject.toml").write_text(text)
    (root / "twincheck" / "__main__.py").write_text("def main():\n    print('the command')\n")
    venv.EnvBuilder(symlinks=True).create(root / ".venv")
    (packages,) = root.glob(".venv/lib/python3*/site-packages")
    (packages / "those.pth").write_text(f"{Path(find_spec('rich').origin).parents[1]}\n")
    return root


def made(root: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    """`make install` in a checkout, with no index but those that are named."""
    clean = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    command = ["make", "-s", "install", f"PYTHON={sys.executable}", *words]
    return called(command, root, **clean | environment)


def found(root: Path, elsewhere: Path) -> list[str]:
    """Return what .venv's Python imports elsewhere: names that it should not, and the root."""
    done = called([root / ".venv/bin/python", "-c", FOUND], elsewhere)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


INSTALLED = "installed: .venv/bin/twincheck, to be called from any folder\n"


@pytest.mark.slow
def test_the_checkout_gets_its_command_and_asks_no_index(in_place, tmp_path):
    done = made(in_place)
    assert done.returncode == 0 and done.stdout.endswith(INSTALLED), done.stderr
    again = made(in_place)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert found(in_place, tmp_path) == ["", str(in_place)]
    command = in_place / ".venv/bin/twincheck"
    done = called([command], tmp_path)
    assert (done.returncode, done.stdout) == (0, "the command\n"), done.stderr
    assert not (in_place / "build").exists()
    # A copy that lacks a folder is not given this checkout's.
    for name in ("twincheck", "common"):
        shutil.copytree(in_place / name, tmp_path / "copy" / name)
    lacks = [in_place / ".venv/bin/python", "-c", "import twincheck.common, twincheck.extras"]
    assert "No module named 'twincheck.extras'" in called(lacks, tmp_path / "copy").stderr
    # A whole copy has the environment of the first, which it is given anew.
    copy = tmp_path / "a copy"
    shutil.copytree(in_place, copy, symlinks=True)
    none = "PYTHON=/no/python"  # fails where there is anything to do
    assert [made(root, none).returncode for root in (in_place, copy)] == [0, 2]
    assert made(copy).stdout.endswith(INSTALLED) and found(copy, tmp_path) == ["", str(copy)]
    assert made(copy, none).returncode == 0
    (copy / ".venv/bin/twincheck").unlink()
    change(in_place / "pyproject.toml", 'names = "twincheck.', 'more = "twincheck.')
    assert [made(root, none).returncode for root in (in_place, copy)] == [2, 2]


def test_a_python_that_will_not_do_is_a_sentence(in_place):
    """It is too old, too new or none; one that will do is handed the program."""
    python = in_place / "a python"
    for minor, status in ((10, 2), (11, 0), (13, 0), (14, 2), (None, 2)):
        code = f"import sys; sys.version_info = (3, {minor}); exec(sys.argv[1])"
        asked = shlex.join([sys.executable, "-I", "-c", code])
        python.write_text(f'#!/bin/sh\n[ "$2" = -c ] || exec echo "$2"\nexec {asked} "$3"\n')
        python.chmod(0o755)
        if minor is None:
            python.unlink()
        done = made(in_place, f"PYTHON={python}")
        assert (done.returncode, done.stdout) == (status, "" if status else "tools/install.py\n")
        assert (f"ensurepip among {python}: install one" in done.stderr) == bool(status)


def test_help_names_every_target():
    run = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("install", "check", "test", "environments", "lint", "clean"):
        assert f"make {target} " in run.stdout
    assert "make install TORCH_INDEX=" in run.stdout
