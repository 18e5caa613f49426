"""Make .venv and put into it what pyproject.toml pins: what `make install` runs.

    python3.11 -I tools/install.py            install, where that is still to be done
    python3.11 -I tools/install.py --is-done  exit 0 where nothing is to be done
    python3.11 -I tools/install.py --will-do  exit 0 where this Python can make the environment

Standard library only. What is installed is written into .venv last of all, so that an interrupted
installation goes on the next time; a lock keeps two of them apart. The checkout itself is used in
place and not installed. Exit status: 0 done, 2 not.
"""

from __future__ import annotations  # an older Python is to say that it will not do

import argparse
import fcntl
import json
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
PATIENCE_S = 3.0


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
            f"Python {sys.version.split()[0]} will not do: 3.11 to 3.13 is needed", file=sys.stderr
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
                f"installation failed (pip's status {error.returncode}; its words are above): "
                "make install goes on from here",
                file=sys.stderr,
            )
            return 2
        except OSError as error:
            print(f"installation failed: {error}", file=sys.stderr)
            return 2
    return 0


def read_requirements() -> list[str]:
    """The dependencies of pyproject.toml and those of its extra `dev`."""
    import tomllib  # not in a Python that is too old, which is told so

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["dependencies"] + project["optional-dependencies"]["dev"]


def is_done(requirements: list[str]) -> bool:
    """Whether .venv works and was made for exactly these requirements."""
    try:
        return json.loads(STAMP.read_text()) == requirements and venv_works()
    except (OSError, ValueError):
        return False


def install(requirements: list[str]) -> None:
    """Make or mend .venv; raises CalledProcessError where pip fails."""
    print(f"installing into {VENV.name}: once, some minutes and 2 GB", flush=True)
    if not venv_works():
        if VENV.exists():  # half made, or its Python is gone
            shutil.rmtree(VENV)
        venv.EnvBuilder(with_pip=True, symlinks=True).create(VENV)
    STAMP.unlink(missing_ok=True)
    torch = next(r for r in requirements if r.startswith("torch=="))
    if sys.platform == "linux" and answers(TORCH_CPU_INDEX + "/torch/"):
        try:
            # Without its dependencies, which come from the user's own index like the rest.
            pip("--no-deps", "--index-url", TORCH_CPU_INDEX, torch)
        except subprocess.CalledProcessError:
            print("no CPU build of torch there: the plain one will do", flush=True)
    pip(*requirements)
    STAMP.write_text(json.dumps(requirements))


def pip(*arguments: str) -> None:
    """`pip install` in .venv; raises CalledProcessError where it fails."""
    command = [str(PYTHON), "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], cwd=ROOT, check=True)


def venv_works() -> bool:
    """Whether .venv's Python starts, is of a version that fits, and has pip."""
    code = "import sys, pip; print(*sys.version_info[:2])"
    try:
        run = subprocess.run([str(PYTHON), "-I", "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return run.returncode == 0 and version_fits(tuple(map(int, run.stdout.split())))


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
