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
from twincheck.common.system.extras import in_language
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import is_of
from twincheck.common.system.start import OLDEST_PYTHON
from twincheck.extras.doctor import Kind
from twincheck.extras.doctor.frameworks import Framework
from twincheck.extras.doctor.machine import Machine
from twincheck.extras.doctor.pythons import Python
from twincheck.extras.doctor.tried import TRIED, order, tried

_WIDTH = 8  # columns of a line's topic
_SHOWN = 3  # of the other Pythons
_SMALL_BYTES = 4e9  # two processes with a framework each, and room for a model
_PACKAGES = {"torch": "torch", "paddle": "paddlepaddle"}
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA: 6 GB
_ON_LINUX = sys.platform == "linux"
_NAMES = {"numpy": "NumPy"}
_PAGE = "docs/environments.md"


def sentences(
    found: Mapping[str, Framework], others: Sequence[Python], machine: Machine
) -> list[str]:
    """The lines, each with its topic first, in the language that people read."""
    lines = [("python", _of_this_python())]
    lines += [(side, _of_framework(found[side])) for side in SIDES]
    lines += zip([Kind.TOPIC_OTHERS(), *[""] * _SHOWN], _of_others(others), strict=False)
    lines += [("GPU", _of_gpus(found, machine)), (Kind.TOPIC_MACHINE(), _of_machine(machine))]
    install = [what_to_install(each, others) for each in found.values() if not each.works]
    # What is missing on both sides may be one command.
    steps = [*dict.fromkeys(install), next_command(found)]
    lines += zip([Kind.TOPIC_NEXT(), *[Kind.TOPIC_THEN()] * len(SIDES)], steps, strict=False)
    return [f"{_column(in_language(topic))}{in_language(text)}" for topic, text in lines]


def _column(said: str) -> str:
    """A topic with spaces behind it; a letter of Chinese is two columns wide."""
    columns = sum(2 if ord(letter) > 0xFF else 1 for letter in said)
    return said + " " * (_WIDTH - columns)


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
    return is_of(tried("python", version), Kind.VERSION_TRIED)


def _is_managed() -> bool:
    """Whether this Python is the system's own, into which pip installs nothing (PEP 668)."""
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    return sys.prefix == sys.base_prefix and os.path.exists(marker)


def _of_this_python() -> str:
    version = platform.python_version()
    said = {"version": version, "path": sys.executable, "tried": tried("python", version)}
    try:
        numpy = metadata.version("numpy")
    except metadata.PackageNotFoundError:
        return Kind.PYTHON_WITHOUT_NUMPY(**said)
    return Kind.PYTHON(**said, numpy=numpy, numpy_tried=tried("numpy", numpy))


def _of_framework(framework: Framework) -> str:
    version, path, built_for = framework.version, framework.path, framework.built_for
    if not framework.works:
        where = Kind.OF_PYTHON(path=path) if path else ""
        return Kind.FRAMEWORK_UNUSABLE(where=where, problem=framework.problem)
    build = Kind.BUILT_FOR(system=built_for) if built_for else Kind.BUILT_FOR_CPU()
    said = {"version": version, "build": build, "tried": tried(framework.side, version)}
    if path == sys.executable:
        return Kind.FRAMEWORK_WORKS(**said, file=framework.file)
    option = joined(f"--{framework.side}-python", Path(path))
    return Kind.FRAMEWORK_WORKS_ELSEWHERE(**said, option=option)


def _of_others(others: Sequence[Python]) -> list[str]:
    having = [python for python in others if set(SIDES) & python.has.keys()]
    lines = []
    for python in having[:_SHOWN]:
        options = [f"--{side}-python" for side in SIDES if python.can_run(side)]
        if len(options) == len(SIDES):
            options = [Kind.OPTION_OR(first=options[0], second=options[1])]
        options = (options or [Kind.NO_SIDE(least=".".join(map(str, OLDEST_PYTHON)))])[0]
        had = [f"{_NAMES.get(name, name)} {version}" for name, version in python.has.items()]
        said = {"path": joined(Path(python.path)), "version": python.version, "packages": had}
        lines.append(Kind.OTHER_PYTHON(**said, options=options))
    if len(having) > _SHOWN:
        more = Kind.PYTHONS_LEFT_OUT(count=len(having) - _SHOWN)
        lines[-1] = Kind.SEVERAL(parts=[lines[-1], more])
    without = Kind.PYTHONS_WITHOUT_FRAMEWORK(count=len(others)) if others else Kind.PYTHONS_NONE()
    return lines or [without]


def _of_gpus(found: Mapping[str, Framework], machine: Machine) -> str:
    seeing = [side for side in SIDES if found[side].gpus]
    if len(seeing) == len(SIDES):
        said = [Kind.GPU_OF_BOTH(gpu=found[SIDES[0]].gpus[0])]
        if machine.tf32 not in ("", "0"):
            said.append(Kind.TF32_STAYS_ON(value=machine.tf32))
        return Kind.SEVERAL(parts=said)
    if seeing or machine.nvidia_driver:
        blind = [side for side in SIDES if side not in seeing]
        alone = [Kind.GPU_OF_ONE_ALONE(side=side) for side in seeing]
        return Kind.SEVERAL(parts=[Kind.GPU_NOT_USABLE(sides=blind, page=_PAGE), *alone])
    return Kind.GPU_NONE()


def _of_machine(machine: Machine) -> str:
    said = Kind.CORES(cores=machine.cores)
    if machine.memory_bytes:
        said = Kind.CORES_AND_MEMORY(cores=machine.cores, memory=machine.memory_bytes / 1e9)
    if (machine.memory_bytes or _SMALL_BYTES) < _SMALL_BYTES:
        said = Kind.MEMORY_LITTLE(machine=said)
    return (Kind.FORK if machine.fork else Kind.FORK_MISSING)(machine=said)
