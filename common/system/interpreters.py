"""Which Python runs a side: found, asked what it has, and refused in one sentence if it won't do.

Runs in the check's process.  The framework is imported neither here nor by the Python that is
asked, so the answer takes a twentieth of a second.
"""

import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from twincheck.common.system.checkout import PATH
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.processes import NEEDED, environment
from twincheck.common.system.reasons import Kind
from twincheck.common.system.start import OLDEST_PYTHON, installed

# Runs under any Python that was named, even a very old one: hence its plain syntax.  Python's zlib
# is loaded to see which library it uses (see Interpreter.variables).
_QUESTION = """
import json, sys
answer = {"python": "%d.%d.%d" % tuple(sys.version_info[:3]), "executable": sys.executable}
if sys.version_info >= (3, 8):
    import importlib.metadata, importlib.util, zlib
    for package, names in json.loads(sys.argv[1]).items():
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        answer[package] = "of unknown version"
        for name in names:
            try:
                answer[package] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                pass
    if sys.platform == "linux" and getattr(zlib, "__file__", None):
        with open("/proc/self/maps") as maps:
            paths = [line.split(None, 5)[-1].strip() for line in maps if "/libz.so" in line]
        answer["libz"] = paths[0] if paths else None
print(json.dumps(answer))
"""
_DISTRIBUTIONS = {
    "torch": ("torch",),
    "paddle": ("paddlepaddle", "paddlepaddle-gpu"),
    "numpy": ("numpy",),
}


_said: dict[str, dict] = {}  # a Python's path -> what it said of itself


def interpreter(side: str, python: str | None) -> str:
    """The path of the Python that runs a side; `environment` then has what its workers need.

    python    what --torch-python or --paddle-python says; None for this Python
    Raises UserError where there is no such Python, or it is too old, or lacks the framework or
    NumPy.
    """
    if python is None:
        if not installed(side):
            told = {"side": side, "python": sys.executable, "command": to_type("doctor")}
            raise UserError(Kind.SIDE_NOT_INSTALLED(**told))
        found = importlib.metadata.distributions(name="paddlepaddle") if side == "paddle" else ()
        if not any(one.version.startswith("2.") for one in found):
            return sys.executable  # nothing to ask
        python = sys.executable
    option = f"--{side}-python {python}"
    path = Path(python).expanduser().absolute()  # not resolved: a venv's python is a link
    if path.is_dir():
        raise UserError(Kind.PYTHON_IS_FOLDER(option=option, python=python))
    if not path.exists():
        raise UserError(Kind.PYTHON_MISSING(option=option))
    answer = _said.get(str(path)) or ask(option, path)
    _said[str(path)] = answer
    told = {"option": option, "version": answer["python"]}
    if tuple(int(part) for part in answer["python"].split(".")) < OLDEST_PYTHON:
        raise UserError(Kind.PYTHON_TOO_OLD(**told, oldest=".".join(map(str, OLDEST_PYTHON))))
    missing = [name for name in (side, "numpy") if name not in answer]
    if missing:
        lacks = Kind.PYTHON_LACKS if len(missing) == 1 else Kind.PYTHON_LACKS_BOTH
        raise UserError(lacks(**told, **dict(zip(("package", "other"), missing, strict=False))))
    NEEDED[str(path)] = _variables(side, answer)
    return str(path)


def versions(python: str) -> str:
    """The versions of Python, torch and NumPy: of this one, or one that was asked what it has."""
    names = ("torch", "numpy")
    if python == sys.executable:
        found = [platform.python_version(), *map(importlib.metadata.version, names)]
    else:
        found = [_said.get(python, {}).get(name, "unknown") for name in ("python", *names)]
    return " ".join(found)


def ask(option: str, path: Path, within_s: float = 60.0) -> dict:
    """Ask a Python what it is and has; raises UserError where it cannot be made to answer."""
    try:
        finished = subprocess.run(
            [str(path), "-W", "ignore", "-c", _QUESTION, json.dumps(_DISTRIBUTIONS)],
            cwd=PATH,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,  # a cold disk, a wrapper that starts a container
        )
    except OSError as error:
        raise UserError(Kind.PYTHON_UNSTARTED(option=option, reason=error.strerror)) from None
    except subprocess.TimeoutExpired:
        raise UserError(Kind.PYTHON_SILENT(option=option, seconds=within_s)) from None
    try:
        answer = json.loads(finished.stdout.strip().rpartition("\n")[2])
        assert isinstance(answer["python"], str)
    except (ValueError, KeyError, TypeError, AssertionError):
        last_line = (finished.stderr or finished.stdout).strip().rpartition("\n")[2][:200]
        if last_line:
            raise UserError(Kind.PYTHON_SAYS_OTHERWISE(option=option, said=last_line)) from None
        raise UserError(Kind.PYTHON_ANSWERS_OTHERWISE(option=option)) from None
    return answer


def _variables(side: str, answer: Mapping[str, str]) -> dict[str, str]:
    """Return what a worker's environment must hold for this Python.

    paddlepaddle 2.6 exports an old zlib of its own.  Where Python's zlib module is a library (not
    in Debian's Python, but in pyenv's and conda's) and is loaded after Paddle, it calls Paddle's
    and crashes: the right one is loaded first.
    """
    if side == "paddle" and answer[side].startswith("2.") and answer.get("libz"):
        return {"LD_PRELOAD": answer["libz"]}
    return {}
