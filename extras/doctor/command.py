"""Say which frameworks and Pythons are here, what was tried, and what to do.

    twincheck doctor

Of each side: the framework of this Python, or of another one, which --torch-python and
--paddle-python name.  No framework is imported into this process: each is asked in one of its own,
so that one that crashes or never ends is told in a sentence.

Exit status: 0 both frameworks work, 1 one does not (what to install is said).
"""

import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.door import joined, to_make, to_pip, to_type
from twincheck.common.system.extras import in_language
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import Parser, guarded
from twincheck.common.system.start import installed
from twincheck.extras.doctor import Kind
from twincheck.extras.doctor.frameworks import Framework, examine
from twincheck.extras.doctor.pythons import TRIED, order, pythons_with

_TRIES = 3  # Pythons that are asked for a framework that works
_WIDTH = 8  # columns of a line's topic
_PACKAGES = {"torch": "torch", "paddle": "paddlepaddle"}
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA: 6 GB


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    Parser(__doc__, "doctor").parse_args(arguments)
    return guarded(False, _examine)


def _examine() -> int:
    with ThreadPoolExecutor(len(SIDES)) as threads:
        found = dict(zip(SIDES, threads.map(find, SIDES), strict=True))
    has_gpu = shutil.which("nvidia-smi") is not None
    print("\n".join(sentences(found, has_gpu)), flush=True)
    return 0 if all(each.works for each in found.values()) else 1


def find(side: str) -> Framework:
    """Return the framework of this Python, or of another in which it works; else what is wrong."""
    asked = [examine(side, sys.executable)] if installed(side) else []
    if not asked or not asked[0].works:
        for path in pythons_with(side)[:_TRIES]:
            asked.append(examine(side, path))
            if asked[-1].works:
                return asked[-1]
    return asked[0] if asked else Framework(side, "", problem=Kind.NO_PYTHON_HAS_IT())


# ---- what to do ---------------------------------------------------------------------------------


def next_command(found: Mapping[str, Framework]) -> str:
    """Return what to type next: the smallest check there is, or this command once more."""
    if not all(each.works for each in found.values()):
        return to_type("doctor")
    elsewhere = (each for each in found.values() if each.path != sys.executable)
    options = (word for e in elsewhere for word in (f"--{e.side}-python", Path(e.path)))
    return to_type("check", "fastformer", *options)


def what_to_install(framework: Framework) -> str:
    """Return the command that brings a missing or broken framework."""
    side, path = framework.side, framework.path
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


def sentences(found: Mapping[str, Framework], has_gpu: bool) -> list[str]:
    """Return the lines, each with its topic first, in the language that people read."""
    install = [what_to_install(each) for each in found.values() if not each.works]
    # What is missing on both sides may be one command.
    steps = [*dict.fromkeys(install), next_command(found)]
    lines = [
        ("python", _of_this_python()),
        *((side, _of_framework(found[side])) for side in SIDES),
        ("GPU", _of_gpus(found, has_gpu)),
        *zip([Kind.TOPIC_NEXT(), *[Kind.TOPIC_THEN()] * len(SIDES)], steps, strict=False),
    ]
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


def _of_gpus(found: Mapping[str, Framework], has_gpu: bool) -> str:
    blind = [side for side in SIDES if not found[side].gpus]
    if not blind:
        return Kind.GPU_OF_BOTH(gpu=found[SIDES[0]].gpus[0])
    if has_gpu or len(blind) < len(SIDES):
        return Kind.GPU_NOT_USABLE(sides=blind)
    return Kind.GPU_NONE()
