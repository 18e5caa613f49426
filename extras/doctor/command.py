"""Say which frameworks and Pythons are here, what was tried, and what to do.

    twincheck doctor [--json]

Of each side: the framework of this Python, or of another one, which --torch-python and
--paddle-python name.  No framework is imported into this process: each is asked in one of its own,
so that one that crashes or never ends is told in a sentence.

Exit status: 0 both frameworks work, 1 one does not (what to install is said).
"""

import dataclasses
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.door import joined, to_make, to_pip, to_type
from twincheck.common.system.extras import in_language
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import Parser, guarded
from twincheck.common.system.start import OLDEST_PYTHON, installed
from twincheck.extras.doctor import Kind
from twincheck.extras.doctor.frameworks import Framework, examine
from twincheck.extras.doctor.pythons import TRIED, Python, order, other_pythons

SCHEMA = 1  # of --json; a later one may have more, and another number where a meaning changes
_TRIES = 3  # Pythons that are asked for a framework that works
_WIDTH = 8  # columns of a line's topic
_SHOWN = 3  # of the other Pythons
_SMALL_BYTES = 4e9  # two processes with a framework each, and room for a model
_PACKAGES = {"torch": "torch", "paddle": "paddlepaddle"}
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA: 6 GB
_DRIVER = Path("/proc/driver/nvidia/version")
# A container's limit, of either version of control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclasses.dataclass(frozen=True)
class Machine:
    """The means of this machine that a check can have."""

    cores: int
    memory_bytes: int | None  # None where the system does not say
    fork: bool
    nvidia_driver: bool
    tf32: str  # what NVIDIA_TF32_OVERRIDE says


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "doctor")
    parser.add_argument("--json", action="store_true", help=Kind.OPTION_JSON())
    options = parser.parse_args(arguments)
    return guarded(False, lambda: _examine(options.json))


def _examine(as_json: bool) -> int:
    others = other_pythons()
    with ThreadPoolExecutor(len(SIDES)) as threads:
        found = dict(zip(SIDES, threads.map(lambda side: find(side, others), SIDES), strict=True))
    machine = look()
    if as_json:
        lines = [json.dumps(_document(found, others, machine), indent=2)]
    else:
        lines = sentences(found, others, machine)
    print("\n".join(lines), flush=True)
    return 0 if all(each.works for each in found.values()) else 1


# ---- what is found ------------------------------------------------------------------------------


def find(side: str, others: Sequence[Python]) -> Framework:
    """Return the framework of this Python, or of another in which it works; else what is wrong."""
    paths = [sys.executable] if installed(side) else []
    fit = [python for python in others if python.can_run(side)]
    # Those of the working folder first, then the newest framework.
    fit.sort(key=lambda python: order(python.has[side]), reverse=True)
    fit.sort(key=lambda python: not Path(python.path).is_relative_to(Path.cwd()))
    paths += [python.path for python in fit]
    asked = []
    for path in paths[:_TRIES]:
        asked.append(examine(side, path))
        if asked[-1].works:
            return asked[-1]
    return asked[0] if asked else Framework(side, "", problem=Kind.NO_PYTHON_HAS_IT())


def look() -> Machine:
    """Return what this machine, or its container, has for this process."""
    sizes = []
    with suppress(ValueError, OSError, AttributeError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        with suppress(ValueError, OSError):  # "max" is no number
            sizes.append(int(Path(path).read_text()))
    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        len(affinity(0)) if affinity else os.cpu_count() or 1,
        min(sizes, default=None),
        hasattr(os, "fork"),
        _DRIVER.exists() or shutil.which("nvidia-smi") is not None,
        os.environ.get("NVIDIA_TF32_OVERRIDE", ""),
    )


def _document(found: dict[str, Framework], others: Sequence[Python], machine: Machine) -> dict:
    """Return what --json prints."""
    return {
        "schema": SCHEMA,
        "usable": all(each.works for each in found.values()),
        "python": sys.executable,
        "sides": {
            side: {**dataclasses.asdict(each), "install": what_to_install(each)}
            for side, each in found.items()
        },
        "others": [dataclasses.asdict(python) for python in others],
        "machine": dataclasses.asdict(machine),
        "next": next_command(found),
    }


# ---- what to do ---------------------------------------------------------------------------------


def next_command(found: Mapping[str, Framework]) -> str:
    """Return what to type next: the smallest check there is, or this command once more."""
    if not all(each.works for each in found.values()):
        return to_type("doctor")
    elsewhere = (each for each in found.values() if each.path != sys.executable)
    options = (word for e in elsewhere for word in (f"--{e.side}-python", Path(e.path)))
    return to_type("check", "fastformer", *options)


def what_to_install(framework: Framework) -> str:
    """Return the command that brings a missing or broken framework; empty where it works."""
    side, path = framework.side, framework.path
    if framework.works:
        return ""
    index = ["--extra-index-url", _CPU_INDEX] * (side == "torch" and sys.platform == "linux")
    if path:
        lacks = "no numpy" in framework.problem
        words = ["numpy"] if lacks else ["--force-reinstall", _PACKAGES[side], *index]
        return to_pip(*words, python=Path(path))
    if IN_A_CHECKOUT:
        return to_make("install")
    last = TRIED["python"][-1].rpartition(".")[0]
    if order(platform.python_version())[:2] <= order(last):
        return to_pip(_PACKAGES[side], *index)
    # There may be no wheels for this Python: into an environment beside, which is found then.
    own = f"{side}-env"
    make = joined(f"python{last}", "-m", "venv", own)
    return f"{make} && {to_pip('numpy', _PACKAGES[side], *index, python=f'{own}/bin/python')}"


# ---- what is said -------------------------------------------------------------------------------


def sentences(
    found: Mapping[str, Framework], others: Sequence[Python], machine: Machine
) -> list[str]:
    """Return the lines, each with its topic first, in the language that people read."""
    lines = [("python", _of_this_python())]
    lines += [(side, _of_framework(found[side])) for side in SIDES]
    lines += zip([Kind.TOPIC_OTHERS(), *[""] * _SHOWN], _of_others(others), strict=False)
    lines += [("GPU", _of_gpus(found, machine)), (Kind.TOPIC_MACHINE(), _of_machine(machine))]
    install = [what_to_install(each) for each in found.values() if not each.works]
    # What is missing on both sides may be one command.
    steps = [*dict.fromkeys(install), next_command(found)]
    lines += zip([Kind.TOPIC_NEXT(), *[Kind.TOPIC_THEN()] * len(SIDES)], steps, strict=False)
    return [f"{_column(in_language(topic))}{in_language(text)}" for topic, text in lines]


def _column(said: str) -> str:
    """A topic with spaces behind it; a letter of Chinese is two columns wide."""
    columns = sum(2 if ord(letter) > 0xFF else 1 for letter in said)
    return said + " " * (_WIDTH - columns)


def tried(name: str, version: str) -> str:
    """Return in words whether a version is among those that were tried; of Python its first two."""
    parts = 2 if name == "python" else 3
    if order(version)[:parts] in [order(one)[:parts] for one in TRIED[name]]:
        return Kind.VERSION_TRIED()
    return Kind.VERSION_UNTRIED(first=TRIED[name][0], last=TRIED[name][-1])


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
        names = {name: "NumPy" if name == "numpy" else name for name in python.has}
        had = [f"{names[name]} {version}" for name, version in python.has.items()]
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
        return Kind.SEVERAL(parts=[Kind.GPU_NOT_USABLE(sides=blind), *alone])
    return Kind.GPU_NONE()


def _of_machine(machine: Machine) -> str:
    said = Kind.CORES(cores=machine.cores)
    if machine.memory_bytes:
        said = Kind.CORES_AND_MEMORY(cores=machine.cores, memory=machine.memory_bytes / 1e9)
        if machine.memory_bytes < _SMALL_BYTES:
            said = Kind.MEMORY_LITTLE(machine=said)
    return (Kind.FORK if machine.fork else Kind.FORK_MISSING)(machine=said)
