"""The gallery's environments and repositories, each at one version, brought once into the cache.

An environment's folder has its constraints' hash in its name, and a stamp once it is complete.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.system.folders import lock_folder
from twincheck.examples.gallery.table import HERE, Edit, sha256
from twincheck.extras.shared.packages import environment_of, own_file
from twincheck.tools.install import torch_index

STAMP = "complete"
SERVER = "https://github.com"  # of repositories


def versions(name: str, folder: Path = HERE) -> dict[str, str]:
    """Package -> version of an environment, as its file pins them."""
    path = folder / "environments" / f"{name}.txt"
    pins = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return dict(pin.split("==") for pin in pins if pin)


def place(name: str, cache: Path) -> Path:
    """Return the folder where an environment is, or will be."""
    setup = HERE / "environments" / f"{name}.py"
    told = versions(name), setup.read_text() if setup.is_file() else ""
    return cache / "environments" / f"{name}-{sha256(*told, sys.version_info[:2])[:12]}"


def python(folder: Path) -> str:
    """An environment's Python."""
    return str(folder / "bin" / "python")


def install(name: str, cache: Path) -> None:
    """Make an environment, unless it is complete; raises UserError where pip cannot."""
    folder = place(name, cache)
    if (folder / STAMP).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(folder)
    if lock is None:
        raise UserError(f"{folder}: another process installs it: wait for that one to end")
    try:
        _install(name, folder)
    finally:
        os.close(lock)


def _install(name: str, folder: Path) -> None:
    print(f"installing the environment {name} into {folder}: some minutes, 1 to 2 GB", flush=True)
    for former in folder.iterdir():
        shutil.rmtree(former) if former.is_dir() and not former.is_symlink() else former.unlink()
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    pip = [sys.executable, "-m", "pip", "--python", python(folder), "install"]
    pip += ["--disable-pip-version-check", "--quiet", "--no-deps"]
    try:
        index = torch_index()  # where it answers, torch's build for the CPU comes from there
    except OSError as error:
        raise UserError(str(error)) from None
    pip += ["--extra-index-url", index] if index else []
    _run([*pip, "-r", str(HERE / "environments" / f"{name}.txt")], f"{name}: pip failed")
    setup = HERE / "environments" / f"{name}.py"
    if setup.is_file():
        hint = "; a torch that is built for CUDA will not do: name an index by TORCH_INDEX"
        _run([python(folder), "-P", "-W", "ignore", str(setup)], f"{setup.name} failed{hint}")
    (folder / STAMP).touch()


def source(repository: str, commit: str, cache: Path) -> Path:
    """Return the folder where a repository's files of a commit are, or will be."""
    return cache / "sources" / repository.replace("/", "+") / commit[:12]


def bring(repository: str, commit: str, cache: Path) -> None:
    """Bring the files of a commit, unless they are there; raises UserError where git cannot."""
    folder = source(repository, commit, cache)
    if folder.is_dir():
        return
    made = folder.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    git = ["git", "-C", str(made)]
    address = f"{SERVER}/{repository}"
    for command in (
        ["git", "init", "--quiet", str(made)],
        [*git, "fetch", "--quiet", "--depth", "1", address, commit],
        [*git, "checkout", "--quiet", "FETCH_HEAD"],
    ):
        _run(command, f"{address} at {commit}: put its files into {folder}; git failed")
    made.rename(folder)


def _run(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise UserError(f"{problem}: {last}")


def mended(folder: Path, edits: Sequence[Edit], target: Path) -> Path:
    """Make an environment in front of another, with edits of its packages; returns `target`."""
    shutil.rmtree(target, ignore_errors=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    _, own = environment_of(python(folder), packages, target)
    for edit in edits:
        file = own_file(packages, Path(edit.file), own)
        file.write_text(edit.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
    return target
