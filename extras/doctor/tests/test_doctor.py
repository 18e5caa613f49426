"""The doctor: what it finds, what it says, and that no framework can harm it."""

import re
import shlex
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
from checkout import ROOT

from twincheck.common.system.door import this_python, to_make
from twincheck.common.system.frameworks import SIDES
from twincheck.extras.doctor import command
from twincheck.extras.doctor.command import TRIED, tried
from twincheck.extras.doctor.frameworks import Framework, examine

RUN = """
import sys
from twincheck.extras.doctor import command
status = command.main(sys.argv[1:])
print(sorted({"torch", "paddle", "numpy"} & set(sys.modules)), file=sys.stderr)
sys.exit(status)
"""


def doctor(folder, *words, python=sys.executable):
    """The command in a folder, with nothing on PATH and no home but that folder's."""
    return subprocess.run(
        [python, "-c", RUN, *words],
        cwd=folder,
        env={"PATH": str(folder), "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def with_torch(folder, text):
    """The Python of an environment whose torch is this text; all else is this environment's."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "torch").mkdir()
    (packages / "torch" / "__init__.py").write_text(text)
    (packages / "others.pth").write_text(str(Path(find_spec("numpy").origin).parents[1]))
    return str(folder / "bin" / "python")


def found(**changed):
    """Both frameworks as they work in this Python; some with other values."""
    usual = {side: {"version": TRIED[side][-1], "file": "/f"} for side in SIDES}
    return {side: Framework(side, **usual[side] | changed.get(side, {})) for side in SIDES}


@pytest.mark.slow
def test_five_lines_and_no_framework_in_its_own_process(tmp_path):
    done = doctor(tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == "[]\n" and len(lines) == 5
    assert re.match(r"torch +2\.13\.0.* works, tried: /", lines[1])
    assert re.match(r"paddle +3\.3\.1.* works, tried: /", lines[2])
    assert re.match(r"next .*twincheck'? check fastformer$", lines[-1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ImportError('libcublas.so.12: no such object')", "status 1: ImportError: libcub"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import os; os._exit(0)", "status 0"),
    ],
)
def test_a_framework_that_crashes_does_not_take_the_doctor_along(tmp_path, monkeypatch, text, said):
    python = with_torch(tmp_path / "an environment", text)
    monkeypatch.setattr(sys, "executable", python)
    told = examine("torch")
    assert not told.works and told.problem.startswith("its import ") and said in told.problem
    lines = command.sentences({"torch": told, "paddle": found()["paddle"]}, False)
    assert lines[1] == f"torch   cannot be used: {told.problem}"
    assert any("-m pip install --force-reinstall torch" in line for line in lines)


def test_an_import_that_never_ends_is_a_sentence(tmp_path, monkeypatch):
    python = with_torch(tmp_path / "env", "import time; time.sleep(60)")
    monkeypatch.setattr(sys, "executable", python)
    told = examine("torch", within_s=1.0)
    assert told.problem == "its import has not ended within 1 s" and not told.works


def test_with_neither_framework_it_says_what_to_install(tmp_path):
    venv.EnvBuilder(with_pip=False, symlinks=True).create(tmp_path / "env")
    done = doctor(tmp_path, python=str(tmp_path / "env" / "bin" / "python"))
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and done.stderr == "[]\n"
    assert lines[0].endswith("; no NumPy")
    assert lines[1:3] == [f"{side:8}cannot be used: this Python does not have it" for side in SIDES]
    assert lines[-2] == f"next    make -C {shlex.quote(str(ROOT))} install"


@pytest.mark.parametrize(
    ("changed", "has_gpu", "said"),
    [
        ({}, False, "none is seen, and none is needed"),
        ({}, True, "there is one, which torch and paddle cannot use here"),
        ({"torch": {"gpus": ["H100"]}}, False, "which paddle cannot use here"),
        (dict.fromkeys(SIDES, {"gpus": ["H100"]}), True, "both see H100: --device gpu runs"),
    ],
)
def test_gpus(changed, has_gpu, said):
    assert said in "\n".join(command.sentences(found(**changed), has_gpu))


def test_what_to_install_is_a_command_that_can_be_typed(monkeypatch):
    missing = Framework("paddle", problem="this Python does not have it", is_here=False)
    assert command.what_to_install(missing) == to_make("install")
    monkeypatch.setattr(command, "IN_A_CHECKOUT", False)
    assert command.what_to_install(missing) == f"{this_python()} -m pip install paddlepaddle"
    broken = Framework("paddle", problem="--paddle-python /e/python has no numpy: …")
    assert command.what_to_install(broken) == f"{this_python()} -m pip install numpy"


@pytest.mark.parametrize(
    ("name", "version", "was"),
    [
        ("torch", "2.13.0+cpu", True),
        ("torch", "99.0", False),
        ("python", "3.12.9", True),
        ("paddle", "of unknown version", False),
    ],
)
def test_whether_a_version_was_tried(name, version, was):
    untried = f"not tried itself (some from {TRIED[name][0]} to {TRIED[name][-1]} were)"
    assert tried(name, version) == ("tried" if was else untried)
