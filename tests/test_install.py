"""What `make install` decides, and what it says of it; no network is asked."""

import http.server
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import tomllib
import venv
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from checkout import Checkout
from packaging.requirements import Requirement
from pages import blocks

from tools import install
from twincheck.common.check.options import Parser
from twincheck.common.check_all import all_steps

ROOT = Path(__file__).resolve().parent.parent


def test_frameworks_are_pinned():
    requirements = install.read_requirements()
    assert {"paddlepaddle==3.3.1", "torch==2.13.0", "reprod_log==1.0.1"} <= set(requirements)


def not_installable(project: dict) -> list[str]:
    """The requirements that no installation has been seen to meet: the package is not here in such
    a version, or it would write into the folder of another."""
    extras = project["optional-dependencies"].values()
    wanted = [Requirement(r) for r in [*project["dependencies"], *sum(extras, [])]]
    names = {requirement.name.lower() for requirement in wanted}
    found = []
    for requirement in wanted:
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            there = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            found.append(str(requirement))
            continue
        if not requirement.specifier.contains(there, prereleases=True):
            found.append(str(requirement))
    if {"paddlepaddle", "paddlepaddle-gpu"} <= names:
        found.append("paddlepaddle and paddlepaddle-gpu, which share a folder")
    return found


def test_every_extra_can_be_installed():
    """Offline: what `make install` made meets each of them, so that each name and pin exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not_installable(project) == []
    # Planted: the extra that was there until nobody could install it, and a pin of no version.
    project["optional-dependencies"]["gpu"] = ["paddlepaddle-gpu==3.3.1", "numpy==99.0"]
    assert not_installable(project) == [
        "paddlepaddle-gpu==3.3.1",
        "numpy==99.0",
        "paddlepaddle and paddlepaddle-gpu, which share a folder",
    ]


def test_the_block_for_a_gpu_can_be_copied():
    """Two environments, each with one framework, at the versions that the checks are measured
    with; its last line is one that the check takes."""
    page = (ROOT / "docs" / "environments.md").read_text()
    section = page.partition("## On a GPU\n")[2].partition("\n## ")[0]
    lines = [line for line in blocks(section) if line]
    made = [shlex.split(line)[3] for line in lines if " -m venv " in line]
    pins = {Requirement(r).name: r for r in install.read_requirements()}
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


def test_done_means_these_requirements_and_a_python_that_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "has_checkout", lambda: True)
    monkeypatch.setattr(install, "STAMP", tmp_path / "installed.json")
    monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
    assert not install.is_done(["a==1"])  # interrupted: no stamp
    install.STAMP.write_text(json.dumps(["a==1"]))
    assert install.is_done(["a==1"])
    assert not install.is_done(["a==2"])
    install.STAMP.write_text("[")
    assert not install.is_done(["a==1"])
    install.STAMP.write_text(json.dumps(["a==1"]))
    monkeypatch.setattr(install, "PYTHON", tmp_path / "gone")
    assert not install.is_done(["a==1"])


@pytest.mark.parametrize(
    "version, fits", [((3, 10), False), ((3, 11), True), ((3, 13), True), ((3, 14), False)]
)
def test_version_fits(version, fits):
    assert install.version_fits(version) is fits


def test_a_server_that_does_not_answer_costs_little(monkeypatch):
    monkeypatch.setattr(install, "PATIENCE_S", 0.3)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert not install.answers(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        assert time.monotonic() - start < 5  # far below a socket's own minutes
    assert not install.answers("no address at all")


class Index:
    """An index of packages on this machine, with a torch that is nothing but its name."""

    def __init__(self, folder: Path):
        page = folder / "torch"
        page.mkdir()
        wheel = "torch-2.13.0+cpu-py3-none-any.whl"
        (page / "index.html").write_text(f'<a href="{wheel.replace("+", "%2B")}">{wheel}</a>')
        about = "torch-2.13.0+cpu.dist-info"
        about_it = {
            "METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        with zipfile.ZipFile(page / wheel, "w") as file:
            for name, text in about_it.items():
                file.writestr(f"{about}/{name}", text)

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=folder)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def index(tmp_path):
    (tmp_path / "index").mkdir()
    made = Index(tmp_path / "index")
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An installation that goes into a folder of its own and asks no other index."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", install.TORCH_INDEX):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    made = tmp_path / ".venv"
    monkeypatch.setattr(install, "VENV", made)
    monkeypatch.setattr(install, "PYTHON", made / "bin" / "python")
    monkeypatch.setattr(install, "STAMP", made / "installed.json")
    monkeypatch.setattr(install, "LOCK", tmp_path / ".venv.lock")
    monkeypatch.setattr(install, "read_requirements", lambda: ["torch==2.13.0"])
    monkeypatch.setattr(install, "has_checkout", made.exists)  # below it is put in by itself
    return made


@pytest.fixture
def dead():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


def test_torch_comes_from_the_index_that_was_named(index, environment, monkeypatch, capfd):
    monkeypatch.setenv(install.TORCH_INDEX, f"{index.url}/")
    assert install.main([]) == 0
    assert f"2 GB where {index.url} has a CPU build of torch" in capfd.readouterr().out
    (there,) = environment.glob("lib/python3*/site-packages/torch-*.dist-info")
    assert there.name == "torch-2.13.0+cpu.dist-info" and install.is_done(["torch==2.13.0"])


def test_an_index_that_was_named_and_will_not_do_is_a_sentence(
    index, dead, environment, monkeypatch, capsys
):
    for url, said in (
        (dead, f"TORCH_INDEX={dead}: {dead}/torch/ does not answer within 3 s"),
        (f"{index.url}/elsewhere", "/elsewhere/torch/ does not answer within 3 s, or there is no"),
        ("whl/cpu", "TORCH_INDEX=whl/cpu: not the address of an index (https://…)"),
    ):
        monkeypatch.setenv(install.TORCH_INDEX, url)
        assert install.main([]) == 2
        told = capsys.readouterr()
        assert told.err.startswith("installation failed: ") and said in told.err
        assert told.out == "" and not environment.exists(), "nothing may be installed instead"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyPI's torch has no CUDA")
def test_what_pypis_torch_costs_is_said_before_it_is_fetched(
    index, dead, environment, monkeypatch, capsys
):
    """Where PyTorch's own index is dead, and where it lacks this torch."""
    asked = []
    monkeypatch.setattr(install.venv.EnvBuilder, "create", lambda *_: environment.mkdir())

    def pip(*arguments):
        asked.append((arguments, capsys.readouterr().out))
        if "--index-url" in arguments:
            raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(install, "pip", pip)
    for url, first in ((dead, "does not answer."), (index.url, "has no torch==2.13.0")):
        monkeypatch.setattr(install, "TORCH_CPU_INDEX", url)
        assert install.main([]) == 0
        arguments, told = asked.pop()
        assert arguments == ("torch==2.13.0",)
        assert f"{url} {first}" in told and "up to 6 GB instead of 2" in told
        assert "make install TORCH_INDEX=https://…/whl/cpu" in told
        install.STAMP.unlink()
    # The index that was named lacks it: nothing else is taken instead.
    monkeypatch.setenv(install.TORCH_INDEX, index.url)
    monkeypatch.setattr(install, "TORCH_CPU_INDEX", dead)
    asked.clear()
    assert install.main([]) == 2
    assert "pip finds no torch==2.13.0 for this Python there" in capsys.readouterr().err
    assert len(asked) == 1


def test_where_pip_fails_it_says_why_and_what_to_do(index, environment, monkeypatch, capfd):
    """A torch that there is, and then a package that no index has."""
    monkeypatch.setenv(install.TORCH_INDEX, index.url)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setattr(install, "read_requirements", lambda: ["torch==2.13.0", "no-such-thing"])
    assert install.main([]) == 2
    said = capfd.readouterr()
    assert "ERROR: No matching distribution found for no-such-thing" in said.err
    last = said.err.splitlines()[-1]
    assert last.startswith("installation failed (pip's status 1; it says above why)")
    assert last.endswith("make install goes on from here")
    assert said.out.startswith("installing into .venv: once")
    assert "Successfully installed torch-2.13.0+cpu" in said.out
    assert not install.is_done(["torch==2.13.0", "no-such-thing"])


# ---- the checkout in .venv ----------------------------------------------------------------------

FOUND = """
import importlib.util as u
names = "common tools extras faults tests step1_forward setup".split()
print(*(name for name in names if u.find_spec(name)))
import twincheck.common.system.checkout as c
print(c.ROOT)
"""


@pytest.fixture
def in_place(tmp_path, monkeypatch):
    """A checkout in a path with a space, and what an older version has left: a .venv with all
    packages (pip and setuptools are those of this environment), but not with the checkout."""
    root = Checkout(tmp_path / "my checkouts").root
    for name in ("setup.py", "README.md"):
        shutil.copy(ROOT / name, root)
    for name in ("docs", "examples"):
        (root / name).mkdir()
    (root / "twincheck" / "__main__.py").write_text("def main():\n    print('the command')\n")
    made = root / ".venv"
    venv.EnvBuilder(symlinks=True).create(made)
    (packages,) = made.glob("lib/python3*/site-packages")
    those = Path(find_spec("rich").origin).parents[1]
    (packages / "those.pth").write_text(f"{those}\n")
    names = dict(ROOT=root, VENV=made, PYTHON=made / "bin/python", STAMP=made / "installed.json")
    for name, value in (names | dict(LOCK=root / "lock")).items():
        monkeypatch.setattr(install, name, value)
    install.STAMP.write_text(json.dumps(install.read_requirements()))
    return root


def called(command: list, folder: Path) -> subprocess.CompletedProcess:
    """A command in a folder, without the path that these tests have."""
    values = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True)


def found(root: Path, elsewhere: Path) -> list[str]:
    """What .venv's Python imports in another folder: names that it should not, and the root."""
    done = called([root / ".venv/bin/python", "-c", FOUND], elsewhere)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_older_versions_environment_gets_the_command_and_asks_no_index(
    in_place, tmp_path, capfd, monkeypatch
):
    monkeypatch.setattr(install, "torch_index", None)  # to call it is a TypeError
    assert install.has_packages(install.read_requirements()) and install.main(["--is-done"]) == 2
    assert install.main([]) == 0
    assert capfd.readouterr() == (
        "installed: .venv/bin/twincheck, to be called from any folder\n",
        "",
    )
    assert install.main(["--is-done"]) == install.main([]) == 0 and capfd.readouterr().out == ""
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
    # What is in the environment without the command, or is another checkout's, is not done.
    other = Checkout(tmp_path / "another").root
    monkeypatch.setattr(install, "ROOT", other)
    assert not install.has_checkout()
    monkeypatch.setattr(install, "ROOT", in_place)
    assert install.has_checkout()
    command.unlink()
    assert not install.has_checkout() and install.main([]) == 0 and command.is_file()
    (points,) = in_place.glob(".venv/lib/python3*/site-packages/twincheck-*/entry_points.txt")
    points.write_text(points.read_text().replace(".live.plugin", ".where_it_was"))
    assert not install.has_checkout() and install.main([]) == 0 and install.has_checkout()
    # Planted: the checkout's folder itself on the path, as a plain editable installation has it.
    (packages,) = in_place.glob(".venv/lib/python3*/site-packages")
    (packages / "plain.pth").write_text(f"{in_place}\n")
    assert found(in_place, tmp_path)[0] == "common extras step1_forward setup"


def test_help_names_every_target():
    run = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("install", "check", "test", "environments", "lint", "clean"):
        assert f"make {target} " in run.stdout
    assert f"make install {install.TORCH_INDEX}=" in run.stdout
