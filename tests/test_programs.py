"""Every program of the tree: what --help does (nothing), and what it says under a wrong Python."""

import ast
import importlib
import os
import re
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


@pytest.mark.slow
def test_help_of_every_program_does_nothing(copy):
    """As a module; the five checks by their path, from another folder."""
    names = programs(copy)
    assert {"step1_forward/torch/forward.py", "fake_data/gen_fake_data.py"} <= set(names)
    assert set(CHECKED) <= set(names) and len(names) >= 20
    before = files(copy)
    for name in names:
        module = name.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
        module = module if module == "twincheck" else f"twincheck.{module}"
        program = [copy / name] if name in CHECKED else ["-m", module]
        done = subprocess.run(
            [sys.executable, "-B", "-X", "importtime", *program, "--help"],
            cwd="/" if name in CHECKED else copy,
            env=os.environ | {"PYTHONPATH": "" if name in CHECKED else str(copy)},
            capture_output=True,
            text=True,
        )
        doc = ast.get_docstring(ast.parse((copy / name).read_text())) or ""
        assert done.returncode == 0, (name, done.stderr)
        assert doc.partition("\n")[0] in done.stdout or name.endswith("__main__.py"), name
        loaded = re.search(r"\| +(torch|paddle|matplotlib)$", done.stderr, re.M)
        assert not loaded or name.startswith("examples/"), name
    assert files(copy) == before


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
