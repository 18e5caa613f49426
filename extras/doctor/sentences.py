"""What the doctor says, in ten lines."""

import os
import platform
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.door import joined, to_make, to_pip, to_type
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.start import OLDEST_PYTHON
from twincheck.extras.doctor.frameworks import Framework
from twincheck.extras.doctor.machine import Machine
from twincheck.extras.doctor.pythons import Python
from twincheck.extras.doctor.tried import TRIED, order, tried

WIDTH = 8  # columns of a line's topic
_SHOWN = 3  # of the other Pythons
_SMALL_BYTES = 4e9  # two processes with a framework each, and room for a model
_PACKAGES = {"torch": "torch", "paddle": "paddlepaddle"}
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA: 6 GB
_ON_LINUX = sys.platform == "linux"
_PAGE = "docs/environments.md"


def sentences(
    found: Mapping[str, Framework], others: Sequence[Python], machine: Machine
) -> list[str]:
    """The lines, each with its topic first."""
    lines = [("python", _of_this_python())]
    lines += [(side, _of_framework(found[side])) for side in SIDES]
    lines += [("" if i else "others", text) for i, text in enumerate(_of_others(others))]
    lines += [("GPU", _of_gpus(found, machine)), ("machine", _of_machine(machine))]
    install = [what_to_install(each, others) for each in found.values() if not each.works]
    # What is missing on both sides may be one command.
    steps = [*dict.fromkeys(install), next_command(found)]
    lines += [("then" if i else "next", text) for i, text in enumerate(steps)]
    return [f"{topic:{WIDTH}}{text}" for topic, text in lines]


def next_command(found: Mapping[str, Framework]) -> str:
    """What to type next: the smallest check there is, or this command once more."""
    if not all(each.works for each in found.values()):
        return to_type("doctor")
    elsewhere = (each for each in found.values() if each.path != sys.executable)
    options = (word for e in elsewhere for word in (f"--{e.side}-python", Path(e.path)))
    return to_type("check", "fastformer", *options)


def what_to_install(framework: Framework, others: Sequence[Python]) -> str:
    """The command that brings a framework which is missing or broken; empty where it works."""
    side, path = framework.side, framework.path
    if framework.works:
        return ""
    index = ["--extra-index-url", _CPU_INDEX] if side == "torch" and _ON_LINUX else []
    if path:
        lacks = "no numpy" in framework.problem
        words = ["numpy"] if lacks else ["--force-reinstall", _PACKAGES[side], *index]
        return to_pip(*words, python=Path(path))
    if IN_A_CHECKOUT:
        return to_make("install")
    if not _is_new(platform.python_version()) and not _is_managed():
        return to_pip(_PACKAGES[side], *index)
    # Into an environment beside, which this command and --torch-python find.
    hosts = [python.path for python in others if _is_known(python.version)]
    host = sys.executable if _is_known(platform.python_version()) else (hosts or ["python3.13"])[0]
    own = f"{side}-env"
    make = joined(Path(host) if os.sep in host else host, "-m", "venv", own)
    return f"{make} && {to_pip('numpy', _PACKAGES[side], *index, python=f'{own}/bin/python')}"


def _is_new(version: str) -> bool:
    """Whether a Python is newer than those tried: the frameworks may have no wheels for it."""
    return order(version)[:2] > order(TRIED["python"][-1])[:2]


def _is_known(version: str) -> bool:
    return tried("python", version) == "tried"


def _is_managed() -> bool:
    """Whether this Python is the system's own, into which pip installs nothing (PEP 668)."""
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    return sys.prefix == sys.base_prefix and os.path.exists(marker)


def _of_this_python() -> str:
    version = platform.python_version()
    parts = [f"{version} ({sys.executable}), {tried('python', version)}"]
    try:
        version = metadata.version("numpy")
        parts.append(f"NumPy {version}, {tried('numpy', version)}")
    except metadata.PackageNotFoundError:
        parts.append("no NumPy")
    return "; ".join(parts)


def _of_framework(framework: Framework) -> str:
    if not framework.works:
        where = f" of {framework.path}" if framework.path else ""
        return f"cannot be used{where}: {framework.problem}"
    build = f"built for {framework.built_for}" if framework.built_for else "a CPU build"
    said = f"{framework.version} ({build}) works, {tried(framework.side, framework.version)}"
    if framework.path == sys.executable:
        return f"{said}: {framework.file}"
    return f"{said}; not in this Python: {_option(framework)}"


def _of_others(others: Sequence[Python]) -> list[str]:
    having = [python for python in others if set(SIDES) & python.has.keys()]
    lines = []
    for python in having[:_SHOWN]:
        options = " or ".join(f"--{side}-python" for side in SIDES if python.can_run(side))
        options = options or f"no side ({_least()})"
        had = ", ".join(f"{name} {version}" for name, version in python.has.items())
        had = had.replace("numpy", "NumPy")
        lines.append(f"{options} {joined(Path(python.path))}: Python {python.version}, {had}")
    if len(having) > _SHOWN:
        lines[-1] += f"; {len(having) - _SHOWN} more: --json"
    without = len(others) - len(having)
    return lines or [f"{without} other Pythons, none with a framework" if without else "none found"]


def _least() -> str:
    return f"it takes NumPy and Python {'.'.join(map(str, OLDEST_PYTHON))}"


def _of_gpus(found: Mapping[str, Framework], machine: Machine) -> str:
    seeing = [side for side in SIDES if found[side].gpus]
    if len(seeing) == len(SIDES):
        said = f"both see {found[SIDES[0]].gpus[0]}: --device gpu runs a check on it, without TF32"
        if machine.tf32 not in ("", "0"):
            said += f"; NVIDIA_TF32_OVERRIDE={machine.tf32} leaves TF32 on: unset it first"
        return said
    if seeing or machine.nvidia_driver:
        blind = " and ".join(side for side in SIDES if side not in seeing)
        alone = f"; --device {seeing[0]}-gpu runs {seeing[0]} alone on it" if seeing else ""
        return f"there is one, which {blind} cannot use here: {_PAGE} says how{alone}"
    return (
        "none is seen, and none is needed; with one, --device gpu is faster, keeps TF32 off, and "
        "changes the last bits of float32"
    )


def _of_machine(machine: Machine) -> str:
    said = f"{machine.cores} core{'s' if machine.cores > 1 else ''}"
    if machine.memory_bytes:
        said += f", {machine.memory_bytes / 1e9:.0f} GB of memory"
    if (machine.memory_bytes or _SMALL_BYTES) < _SMALL_BYTES:
        said += " (little: begin with a small model)"
    if machine.fork:
        return f"{said}; fork is there: twincheck.check(torch_model, paddle_model, inputs) can run"
    return f"{said}; no fork: live models cannot be checked here, a pair's files can"


def _option(framework: Framework) -> str:
    return joined(f"--{framework.side}-python", Path(framework.path))
