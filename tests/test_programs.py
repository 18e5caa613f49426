"""Every program of the tree: what --help does (nothing), and what it says under a wrong Python."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import CHECKS, ROOT

from twincheck.common.system.program import guarded

NOT_COPIED = set(".venv .paconvert .environments .git log tests __pycache__ programs".split())
# Beside these a maintainer's, which are run as modules by the Python of make install.
LEFT_OUT = NOT_COPIED | {"faults", "tools"}
DOOR = "twincheck/__main__.py"
CHECKED = sorted(CHECKS.values())  # called by their path, from any folder
# Runs every program in a fork of one process, in which their imports are made already.
DRIVER = """
import contextlib, importlib, os, runpy, sys
sys.path.insert(0, os.getcwd())
import numpy, rich.table
import twincheck.common.check.runner, twincheck.extras.certificate.command
root, programs = os.getcwd(), sys.argv[1:]
for program in programs:
    for named in ("path", "module") if "/check_step" in program else ("module",):
        read, write = os.pipe()
        if os.fork() == 0:
            os.dup2(write, 1)
            os.dup2(write, 2)
            sys.argv[:] = [program, "--help"]
            try:
                if named == "path":
                    os.chdir("/")
                    sys.path[0] = os.path.dirname(os.path.join(root, program))
                    runpy.run_path(os.path.join(root, program), run_name="__main__")
                else:
                    name = program.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
                    name = name if name == "twincheck" else f"twincheck.{name}"
                    runpy.run_module(name, run_name="__main__", alter_sys=True)
                status = 0
            except SystemExit as end:
                status = end.code or 0
            except BaseException as error:
                print(repr(error))
                status = 70
            loaded = {"torch", "paddle", "matplotlib"} & set(sys.modules)
            if loaded:
                print("imported", *loaded)
            sys.stdout.flush()
            os._exit(status if isinstance(status, int) else 71)
        os.close(write)
        with os.fdopen(read, errors="replace") as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.wait()[1])
        print(repr((program, named, status, said)), flush=True)
"""


def programs(root: Path) -> list[str]:
    """Every file that is run as a program, relative to the checkout."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for path in (Path(folder) / name for name in names if name.endswith(".py")):
            if '\nif __name__ == "__main__":' in path.read_text():
                found.append(path.relative_to(root).as_posix())
    return sorted(found)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the checkout that nothing else writes into."""
    folder = tmp_path_factory.mktemp("programs") / "copy"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    return folder


def files(root: Path) -> dict[str, tuple[int, int]]:
    """Every file, its size and when it was written."""
    seen = (path for path in root.rglob("*") if "__pycache__" not in path.parts)
    stats = {path: path.lstat() for path in seen if not path.is_dir()}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def faults_of_help(root: Path, names: list[str]) -> list[str]:
    """List the faults of these programs' --help, as modules; of the five checks by path too."""
    before = files(root)
    finished = subprocess.run(
        [sys.executable, "-c", DRIVER, *names],
        cwd=root,
        env=os.environ | {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    answers = [ast.literal_eval(line) for line in finished.stdout.splitlines()]
    by_path = [name for name in names if name in CHECKED]
    assert len(answers) == len(names) + len(by_path), finished.stderr
    wrong = []
    for program, named, status, said in answers:
        doc = ast.get_docstring(ast.parse((root / program).read_text())) or ""
        told = doc.partition("\n")[0] in said or program.endswith("__main__.py")
        if status != 0 or not told or "imported" in said.splitlines()[-1:]:
            wrong.append(f"{program} by its {named}: status {status}: {said[-500:]}")
    after = files(root)
    wrong += [f"written: {path}" for path in after if after[path] != before.get(path)]
    return wrong + [f"removed: {path}" for path in before if path not in after]


@pytest.mark.slow
def test_help_of_every_program_does_nothing(copy):
    names = programs(copy)
    assert {"step1_forward/torch/forward.py", "fake_data/gen_fake_data.py"} <= set(names)
    assert set(CHECKED) <= set(names) and len(names) >= 25
    assert faults_of_help(copy, names) == []


def test_a_program_that_takes_no_notice_of_help_is_found(copy):
    """Plants what fake_data/gen_fake_data.py did."""
    planted = copy / "fake_data" / "planted.py"
    planted.write_text(
        '"""Planted."""\n\nfrom pathlib import Path\n\nif __name__ == "__main__":\n'
        '    Path(__file__).with_name("written").touch()\n    print("Planted.")\n'
    )
    try:
        wrong = faults_of_help(copy, ["fake_data/planted.py"])
    finally:
        planted.unlink()
        (copy / "fake_data" / "written").unlink()
    assert len(wrong) == 1 and wrong[0].startswith("written: ")


def test_a_python_without_the_packages_is_told_which_to_use(copy):
    for program in (CHECKED[0], CHECKED[4], f"{DOOR} step1"):
        path, *words = program.split()
        command = [sys.executable, "-S", "-I", "-B", copy / path, *words, "--model", "a b"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
        error = done.stderr
        assert (done.returncode, done.stdout) == (2, ""), (program, error)
        assert error.startswith("error: ") and error.count("\n") == 1, (program, error)
        assert "has no numpy" in error and f"`make -C {copy} install`" in error
        assert error.endswith(f"{program} --model 'a b'\n"), error


def test_a_stop_while_a_file_is_open_is_a_stop(capsys):
    def stopped():
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("Can't close the ZIP file while there is an open writing handle on it")

    assert guarded(False, stopped, "; --resume goes on") == 2
    told = capsys.readouterr().err
    assert told.startswith("error: stopped: what was finished") and "--resume goes on" in told


def test_a_package_that_is_missing_later_is_named_with_the_python_to_use(capsys):
    """Such as one that a pair's case.py imports."""
    assert guarded(False, lambda: importlib.import_module("no_such_package")) == 2
    error = capsys.readouterr().err
    assert "needs no_such_package, which " in error and "install it there" in error
    assert error.count("\n") == 1 and "internal error" not in error


def test_an_older_python_can_read_what_says_so():
    first = "twincheck/__init__.py", "common/system/start.py", "common/system/door.py"
    for name in (*CHECKED, DOOR, *first, "common/system/__init__.py", "common/__init__.py"):
        ast.parse((ROOT / name).read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.9"])
def test_an_older_python_is_told_which_to_use(version):
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} under ~/.pyenv/versions")
    command = [found[0], "-B", CHECKED[4]]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2 and "Traceback" not in finished.stderr
    assert f"is Python {version}." in finished.stderr and "3.10 or newer" in finished.stderr
    assert finished.stderr.rstrip().endswith(f".venv/bin/python {CHECKED[4]}")
