"""Have pip put into .venv what pyproject.toml names: what `make install` runs.

On Linux torch comes from PyTorch's index of CPU builds; TORCH_INDEX=URL in the environment names
another index for it. An interrupted installation is completed; what is there is not asked for
again. Standard library only. Exit status: 0 done, 2 not.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA
LARGE = f"""{TORCH_CPU_INDEX} does not answer. PyPI's torch brings CUDA, which is not used here: up
to 6 GB instead of 2. To take a CPU build instead, stop this (Ctrl-C) and name an index that has it:
    make install TORCH_INDEX=https://…/whl/cpu"""
WORKS = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))"


def torch_index() -> str | None:
    """The index that torch comes from, None for pip's own; raises OSError where TORCH_INDEX names
    one that will not do: whoever named it does not want gigabytes from elsewhere instead."""
    named = os.environ.get("TORCH_INDEX", "").strip().rstrip("/")
    if not named and sys.platform != "linux":
        return None
    page = f"{named or TORCH_CPU_INDEX}/torch/"
    try:
        urllib.request.urlopen(page, timeout=3).close()
        return named or TORCH_CPU_INDEX
    except (OSError, ValueError) as error:
        if named:
            raise OSError(f"TORCH_INDEX={named}: {page} cannot be read: {error}") from None
    print(LARGE, flush=True)
    return None


def install() -> None:
    """Make or mend .venv; raises CalledProcessError where pip fails, OSError as above."""
    python = ROOT / ".venv" / "bin" / "python"
    works = [python, "-I", "-c", WORKS]
    if not python.exists() or subprocess.run(works, capture_output=True).returncode:
        subprocess.run([sys.executable, "-m", "venv", "--clear", ROOT / ".venv"], check=True)
    pip = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    torch = [pin for pin in extras["frameworks"] if pin.startswith("torch==")]
    setuptools = [pin for pin in extras["dev"] if pin.startswith("setuptools")]
    # What builds the checkout is in .venv, so that no index is asked where all is there.
    there = subprocess.run(
        [*pip, "--no-deps", "--no-index", *torch, *setuptools], capture_output=True
    )
    if there.returncode:
        index = torch_index()
        if index:
            subprocess.run([*pip, "--no-deps", "--index-url", index, *torch], check=True)
        subprocess.run([*pip, *setuptools], check=True)
    own = ["--no-build-isolation", "--editable", ".[frameworks,dev]"]
    subprocess.run([*pip, *own], cwd=ROOT, check=True)
    shutil.copy(ROOT / "pyproject.toml", ROOT / ".venv")  # last: by it make knows that this is done


if __name__ == "__main__":
    described = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=described).parse_args()
    try:
        with open(ROOT / ".venv.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            print("installing into .venv: once, some minutes and 2 GB", flush=True)
            install()
    except (OSError, subprocess.CalledProcessError, KeyboardInterrupt) as error:
        why = f"{error}\n" if isinstance(error, OSError) else ""  # pip has said it
        print(f"{why}installation stopped: make install goes on from here", file=sys.stderr)
        sys.exit(2)
    print("installed: .venv/bin/twincheck, to be called from any folder")
