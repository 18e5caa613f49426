"""The doctor: what it finds, what it says, and that no framework can harm it."""

import json
import os
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
from twincheck.extras.doctor import command, pythons
from twincheck.extras.doctor.command import Machine, tried
from twincheck.extras.doctor.frameworks import Framework, examine
from twincheck.extras.doctor.pythons import TRIED, Python

# Beside the Pythons of a folder it looks for none of this checkout's.
RUN = """
import sys
from twincheck.extras.doctor import command, pythons
pythons.IN_A_CHECKOUT = False
status = command.main(sys.argv[1:])
print(sorted({"torch", "paddle", "numpy"} & set(sys.modules)), file=sys.stderr)
sys.exit(status)
"""
USUAL = Machine(cores=2, memory_bytes=16 * 10**9, fork=True, nvidia_driver=False, tf32="")


def doctor(folder, *words, python=sys.executable, **variables):
    """The command in a folder, with nothing on PATH and no home but that folder's."""
    alone = {"PATH": str(folder), "HOME": str(folder), "PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(
        [python, "-c", RUN, *words],
        cwd=folder,
        env=alone,
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


def python_of(path, **has):
    """A shell script that answers as a Python with these packages would."""
    answer = json.dumps({"python": "3.11.7", "executable": str(path)} | has)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


def found(**changed):
    """Both frameworks as they work in this Python; some with other values."""
    usual = {
        side: {"version": TRIED[side][-1], "file": "/f", "path": sys.executable} for side in SIDES
    }
    return {side: Framework(side, **usual[side] | changed.get(side, {})) for side in SIDES}


# ---- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_lines_and_no_framework_in_its_own_process(tmp_path):
    done = doctor(tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == "[]\n" and len(lines) <= 10
    assert re.match(r"torch +2\.13\.0.* works, tried: /", lines[1])
    assert re.match(r"paddle +3\.3\.1.* works, tried: /", lines[2])
    assert lines[-1].startswith("next ") and lines[-1].replace("'", "").endswith(
        "twincheck check fastformer"
    )
    done = doctor(tmp_path, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["usable"] and told["schema"] == command.SCHEMA
    for side in SIDES:
        found = told["sides"][side]
        assert found["install"] == "" and found["built_for"] is None, found
        assert Path(found["file"]).name == side and not found["problem"]


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
    told = examine("torch", python)
    assert not told.works and told.problem.startswith("its import ") and said in told.problem
    monkeypatch.setattr(command, "other_pythons", list)
    monkeypatch.setattr(command.sys, "executable", python)
    broken = command.find("torch", [])
    assert broken == told
    lines = command.sentences({"torch": told, "paddle": found()["paddle"]}, [], USUAL)
    assert lines[1] == f"torch   cannot be used of {python}: {told.problem}"
    assert any("-m pip install --force-reinstall torch" in line for line in lines)


def test_an_import_that_never_ends_is_a_sentence(tmp_path):
    python = with_torch(tmp_path / "env", "import time; time.sleep(60)")
    told = examine("torch", python, within_s=1.0)
    assert told.problem == "its import has not ended within 1 s" and not told.works
    ends = with_torch(tmp_path / "quick", "raise ImportError")
    assert "ImportError" in examine("torch", ends, within_s=30.0).problem
    absent = "--torch-python /no/python: there is no such file"
    assert examine("torch", "/no/python").problem == absent


def test_with_neither_framework_it_says_what_to_install(tmp_path):
    venv.EnvBuilder(with_pip=False, symlinks=True).create(tmp_path / "env")
    python = str(tmp_path / "env" / "bin" / "python")
    done = doctor(tmp_path, python=python)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and done.stderr == "[]\n" and len(lines) <= 10
    assert lines[0].endswith("; no NumPy")
    assert lines[1:3] == [f"{side:8}cannot be used: no Python here has it" for side in SIDES]
    assert lines[-2] == f"next    make -C {shlex.quote(str(ROOT))} install"
    told = json.loads(doctor(tmp_path, "--json", python=python).stdout)
    assert not told["usable"] and told["sides"]["torch"]["install"].startswith("make -C ")


def test_a_word_that_it_does_not_know(tmp_path):
    done = doctor(tmp_path, "--jsn")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: unrecognized arguments: --jsn (`")
    said = done.stderr.replace("'", "")
    assert said.endswith("twincheck doctor --help` lists what it takes)\n")


# ---- other Pythons -------------------------------------------------------------------------------


def test_environments_here_come_first_and_each_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = python_of(tmp_path / "torch-env" / "bin" / "python", torch="2.8.0", numpy="1.26.4")
    (tmp_path / "torch-env" / "pyvenv.cfg").touch()
    python_of(tmp_path / "home/.pyenv/versions/3.9/bin/python", paddle="3.0.0", python="3.9.1")
    silent = tmp_path / "path" / "python3"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    (silent.parent / "python3.11").symlink_to(own)
    monkeypatch.setenv("PATH", f"{silent.parent}:{own.parent}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_EXE", "PYENV_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pythons, "IN_A_CHECKOUT", False)
    others = pythons.other_pythons()
    assert [(one.path, one.has) for one in others] == [
        (str(own), {"torch": "2.8.0", "numpy": "1.26.4"}),
        (str(tmp_path / "home/.pyenv/versions/3.9/bin/python"), {"paddle": "3.0.0"}),
    ]
    assert others[0].can_run("torch") and not others[0].can_run("paddle")
    assert not others[1].can_run("paddle"), "too old, and without NumPy"


def test_the_framework_of_another_python_is_named_with_its_option(monkeypatch):
    other = Python("/e/bin/python", "3.11.7", {"torch": "2.8.0", "numpy": "2.0"})
    newer = Python("/n/bin/python", "3.11.7", {"torch": "2.13.0", "numpy": "2.0"})
    monkeypatch.setattr(command, "installed", lambda side: False)
    monkeypatch.setattr(command, "examine", lambda side, path: Framework(side, path, version="2.8"))
    assert command.find("torch", [other, newer]).path == "/n/bin/python"
    assert command.find("paddle", [other]).problem == "no Python here has it"
    monkeypatch.setattr(
        command, "examine", lambda side, path: Framework(side, path, "no" * (path == newer.path))
    )
    assert command.find("torch", [other, newer]).path == "/e/bin/python", "the newest is broken"
    told = command.sentences(found(torch={"path": "/e/bin/python"}), [other], USUAL)
    assert told[1].endswith("not in this Python: --torch-python /e/bin/python")
    assert told[3] == "others  --torch-python /e/bin/python: Python 3.11.7, torch 2.8.0, NumPy 2.0"
    assert told[-1].endswith(" check fastformer --torch-python /e/bin/python")


def test_many_pythons_do_not_make_it_longer():
    many = [Python(f"/{i}/bin/python", "3.11.7", {"torch": "2.8.0"}) for i in range(9)]
    told = command.sentences(found(), many, USUAL)
    assert len(told) <= 10 and told[5].endswith("; 6 more: --json")
    assert "no side (it takes NumPy and Python 3.10)" in told[3]


# ---- what it says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "of_machine", "said"),
    [
        ({}, {}, "none is seen, and none is needed"),
        ({}, {"nvidia_driver": True}, "there is one, which torch and paddle cannot use here"),
        ({"torch": {"gpus": ["H100"]}}, {}, "which paddle cannot use here"),
        ({"torch": {"gpus": ["H100"]}}, {}, "; --device torch-gpu runs torch alone on it"),
        (dict.fromkeys(SIDES, {"gpus": ["H100"]}), {}, "both see H100: --device gpu runs"),
        (dict.fromkeys(SIDES, {"gpus": ["H100"]}), {"tf32": "1"}, "=1 leaves TF32 on: unset it"),
        ({}, {"cores": 1}, "machine 1 core, 16 GB"),
        ({}, {"memory_bytes": 2 * 10**9}, "(little: begin with a small model)"),
        ({}, {"memory_bytes": None}, "machine 2 cores; fork is there"),
        ({}, {"fork": False}, "no fork: live models cannot be checked here"),
    ],
)
def test_gpus_and_the_machine(changed, of_machine, said):
    usual = vars(USUAL) | of_machine
    told = "\n".join(command.sentences(found(**changed), [], Machine(**usual)))
    assert said in told


def test_what_to_install_is_a_command_that_can_be_typed(monkeypatch):
    monkeypatch.setattr(command, "IN_A_CHECKOUT", False)
    missing = Framework("paddle", "", problem="no Python here has it")
    install = command.what_to_install
    assert install(missing) == f"{this_python()} -m pip install paddlepaddle"
    assert install(found()["torch"]) == ""
    broken = Framework("paddle", "/e/python", problem="--paddle-python /e/python has no numpy: …")
    assert install(broken) == "/e/python -m pip install numpy"
    monkeypatch.setattr(command.platform, "python_version", lambda: "3.15.0")
    beside = "python3.13 -m venv paddle-env && paddle-env/bin/python -m pip install numpy paddle"
    assert install(missing).startswith(beside)
    monkeypatch.setattr(command, "IN_A_CHECKOUT", True)
    assert install(missing) == to_make("install")


@pytest.mark.parametrize(
    ("name", "version", "was"),
    [
        ("torch", "2.13.0+cpu", True),
        ("torch", "99.0", False),
        ("torch", "2.6.0+cu124", False),
        ("python", "3.12.9", True),
        ("paddle", "of unknown version", False),
    ],
)
def test_whether_a_version_was_tried(name, version, was):
    untried = f"not tried itself (some from {TRIED[name][0]} to {TRIED[name][-1]} were)"
    assert tried(name, version) == ("tried" if was else untried)


def test_the_machine_itself(monkeypatch, tmp_path):
    own, limit = command.look(), tmp_path / "memory.max"
    assert own.cores >= 1 and own.fork is hasattr(os, "fork")
    monkeypatch.setattr(command, "_LIMITS", (str(limit),))
    for text, expected in (("1000\n", 1000), ("max\n", own.memory_bytes)):
        limit.write_text(text)
        assert command.look().memory_bytes == expected
