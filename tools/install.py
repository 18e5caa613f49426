"""Make .venv and put into it what pyproject.toml pins: what `make install` runs.

    python3.11 -I tools/install.py            install, where that is still to be done
    python3.11 -I tools/install.py --is-done  exit 0 where nothing is to be done
    python3.11 -I tools/install.py --will-do  exit 0 where this Python can make the environment

On Linux torch comes from PyTorch's index of CPU builds; TORCH_INDEX=URL in the environment names
another index for it (make install TORCH_INDEX=URL).

Standard library only. Which packages are there is written into .venv behind them, so that an
interrupted installation goes on the next time; a lock keeps two of them apart. The checkout itself
is installed last, in place (pip install -e), which makes .venv/bin/twincheck. Exit status: 0 done,
2 not.
"""

from __future__ import annotations  # an older Python is to say that it will not do

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.json"
LOCK = ROOT / ".venv.lock"

VERSIONS = ((3, 11), (3, 13))
# On Linux, PyPI's torch brings gigabytes of CUDA; PyTorch's own index has a CPU build.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH_INDEX = "TORCH_INDEX"  # the environment's variable that names another index for torch
PATIENCE_S = 3.0
SIZE_GB, SIZE_WITH_CUDA_GB = 2, 6  # of .venv, with a CPU build of torch and with PyPI's


class InstallError(Exception):
    """What the user can mend, in a sentence."""


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--is-done", action="store_true", help="exit 0 where nothing is to be done")
    group.add_argument("--will-do", action="store_true", help="exit 0 where this Python will do")
    asked = parser.parse_args(arguments)
    if asked.will_do:
        return 0 if version_fits(sys.version_info[:2]) and has_ensurepip() else 2
    if not version_fits(sys.version_info[:2]):
        print(
            f"Python {sys.version.split()[0]} is not supported: use 3.11 to 3.13", file=sys.stderr
        )
        return 2
    requirements = read_requirements()
    if asked.is_done:
        return 0 if is_done(requirements) else 2
    with open(LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another installation is running: waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if is_done(requirements):  # the other one did it
            return 0
        try:
            install(requirements)
        except subprocess.CalledProcessError as error:
            print(
                f"installation failed (pip's status {error.returncode}; it says above why): make "
                "install goes on from here",
                file=sys.stderr,
            )
            return 2
        except (InstallError, OSError) as error:
            print(f"installation failed: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("installation stopped: make install goes on from here", file=sys.stderr)
            return 2
    return 0


def project() -> dict:
    """The table `project` of pyproject.toml."""
    import tomllib  # not in a Python that is too old, which is told so

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_requirements() -> list[str]:
    """The dependencies of pyproject.toml and those of its extras `frameworks` and `dev`."""
    extras = project()["optional-dependencies"]
    return project()["dependencies"] + extras["frameworks"] + extras["dev"]


def is_done(requirements: list[str]) -> bool:
    """Whether .venv works, was made for exactly these requirements, and has this checkout."""
    return has_packages(requirements) and has_checkout()


def has_packages(requirements: list[str]) -> bool:
    """Whether .venv works and was made for exactly these requirements."""
    try:
        return json.loads(STAMP.read_text()) == requirements and venv_works()
    except (OSError, ValueError):
        return False


def has_checkout() -> bool:
    """Whether .venv has the project's commands, and its Python finds the package here.

    It may be missing, as an older version left it out, or be that of the folder that this checkout
    was copied or moved from; a file that pytest is to load may have been moved since.
    """
    commands = [VENV / "bin" / name for name in project()["scripts"]]
    code = (
        "import importlib.metadata as m, importlib.util as u, json; s = u.find_spec('twincheck'); "
        "plugins = {p.name: p.value for p in m.entry_points(group='pytest11')}; "
        "print(json.dumps([s.origin if s else '', plugins]))"
    )
    try:
        found, plugins = json.loads(in_venv(code))
    except ValueError:
        return False
    own = ROOT / "twincheck" / "__init__.py"
    here = all(map(Path.is_file, commands)) and Path(found).is_file() and own.samefile(found)
    return here and project()["entry-points"]["pytest11"].items() <= plugins.items()


def install(requirements: list[str]) -> None:
    """Make or mend .venv; raises CalledProcessError where pip fails, InstallError where an index
    was named that will not do."""
    if not has_packages(requirements):
        install_packages(requirements)
        STAMP.write_text(json.dumps(requirements))
    if not has_checkout():
        install_checkout()


def install_checkout() -> None:
    """Put the checkout itself into .venv, in place: nothing but setuptools is needed, no index."""
    own = ("--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    pip("--quiet", *own)  # what takes a second
    commands = ", ".join(f"{VENV.name}/bin/{name}" for name in project()["scripts"])
    print(f"installed: {commands}, to be called from any folder", flush=True)


def install_packages(requirements: list[str]) -> None:
    """Make or mend .venv and put the packages into it; raises as `install` does."""
    index = torch_index()
    print(announcement(index), flush=True)
    if not venv_works():
        if VENV.exists():  # half made, or its Python is gone
            shutil.rmtree(VENV)
        venv.EnvBuilder(with_pip=True, symlinks=True).create(VENV)
    STAMP.unlink(missing_ok=True)
    if index is not None:
        install_torch(next(r for r in requirements if r.startswith("torch==")), index)
    pip(*requirements)


def torch_index() -> str | None:
    """The index that torch comes from; None for where pip looks for everything else.

    Raises InstallError where TORCH_INDEX names one that does not answer: whoever named it does not
    want gigabytes from elsewhere instead.
    """
    named = os.environ.get(TORCH_INDEX, "").strip().rstrip("/")
    if named:
        if not named.startswith(("http://", "https://")):
            raise InstallError(f"{TORCH_INDEX}={named}: not the address of an index (https://…)")
        if not answers(f"{named}/torch/"):
            raise InstallError(
                f"{TORCH_INDEX}={named}: {named}/torch/ does not answer within {PATIENCE_S:g} s, "
                "or there is no such page; nothing was changed"
            )
        return named
    if sys.platform == "linux" and answers(f"{TORCH_CPU_INDEX}/torch/"):
        return TORCH_CPU_INDEX
    return None


def announcement(index: str | None) -> str:
    """What is about to be installed, and its size: said before anything is downloaded."""
    if index == TORCH_CPU_INDEX or sys.platform != "linux":
        return f"installing into {VENV.name}: once, some minutes and {SIZE_GB} GB"
    if index is not None:
        return (
            f"installing into {VENV.name}: once, some minutes and {SIZE_GB} GB where {index} has a "
            f"CPU build of torch, {SIZE_WITH_CUDA_GB} GB where it has PyPI's, which brings CUDA"
        )
    return f"{TORCH_CPU_INDEX} does not answer.\n{large_install()}"


def large_install() -> str:
    """What it costs to take torch from PyPI, and how not to."""
    free = shutil.disk_usage(ROOT).free / 1e9
    return (
        f"installing into {VENV.name}: once. PyPI's torch brings CUDA, which is not used here: up "
        f"to {SIZE_WITH_CUDA_GB} GB instead of {SIZE_GB} ({free:.0f} GB are free).\n"
        "To take a CPU build instead, stop this (Ctrl-C) and name an index that has one:\n"
        f"    make install {TORCH_INDEX}=https://…/whl/cpu"
    )


def install_torch(torch: str, index: str) -> None:
    """torch from its index; where PyTorch's own lacks it, say what that costs and go on without.

    Raises InstallError where TORCH_INDEX named the index.
    """
    try:
        # Without its dependencies, which come from the user's own index like the rest.
        pip("--no-deps", "--index-url", index, torch)
    except subprocess.CalledProcessError:
        if index != TORCH_CPU_INDEX:
            raise InstallError(
                f"{TORCH_INDEX}={index}: pip finds no {torch} for this Python there"
            ) from None
        print(f"{index} has no {torch} for this Python.\n{large_install()}", flush=True)


def pip(*arguments: str) -> None:
    """Run `pip install` in .venv; raises CalledProcessError where it fails."""
    command = [str(PYTHON), "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], cwd=ROOT, check=True)


def venv_works() -> bool:
    """Whether .venv's Python starts, is of a version that fits, and has pip."""
    said = in_venv("import sys, pip; print(*sys.version_info[:2])")
    return bool(said) and version_fits(tuple(map(int, said.split())))


def in_venv(code: str) -> str:
    """What code says in .venv's Python; nothing where that does not start, or fails."""
    try:
        run = subprocess.run([str(PYTHON), "-I", "-c", code], capture_output=True, text=True)
    except OSError:
        return ""
    return run.stdout if run.returncode == 0 else ""


def version_fits(version: tuple[int, ...]) -> bool:
    """Whether a Python of this version is one that the pinned packages exist for."""
    return VERSIONS[0] <= version <= VERSIONS[1]


def has_ensurepip() -> bool:
    """Whether this Python can put pip into a new environment; Debian's cannot until told."""
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        return False
    return True


def answers(url: str) -> bool:
    """Whether `url` can be read within PATIENCE_S, looking up its name included."""
    answered = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                answered.append(reply.status == 200)
        except (OSError, ValueError):
            pass

    # urlopen's limit does not hold for the look-up of the name; a thread can be left behind.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    return bool(answered and answered[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
