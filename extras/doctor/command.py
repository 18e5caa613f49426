"""Say which frameworks and Pythons are here, what was tried, and what to do.

    twincheck doctor

No framework is imported into this process: each is asked in one of its own, so that one that
crashes or never ends is told in a sentence.

Exit status: 0 both frameworks work, 1 one does not (what to install is said).
"""

import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.door import to_make, to_pip, to_type
from twincheck.common.system.extras import in_language
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import Parser, guarded
from twincheck.extras.doctor import Kind
from twincheck.extras.doctor.frameworks import Framework, examine

# Those that the workbench was tried with, in order; docs/environments.md says what passed in each.
TRIED = {
    "python": ("3.10.13", "3.11.7", "3.12.1", "3.13.0"),
    "numpy": ("1.26.4", "2.4.6", "2.5.5"),
    "torch": ("2.4.1", "2.8.0", "2.13.0"),
    "paddle": ("2.6.2", "3.0.0", "3.1.1", "3.2.2", "3.3.1"),
}
_WIDTH = 8  # columns of a line's topic
_PACKAGES = {"torch": "torch", "paddle": "paddlepaddle"}
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA: 6 GB


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    Parser(__doc__, "doctor").parse_args(arguments)
    return guarded(False, _examine)


def _examine() -> int:
    with ThreadPoolExecutor(len(SIDES)) as threads:
        found = dict(zip(SIDES, threads.map(examine, SIDES), strict=True))
    has_gpu = shutil.which("nvidia-smi") is not None
    print("\n".join(sentences(found, has_gpu)), flush=True)
    return 0 if all(each.works for each in found.values()) else 1


# ---- what to do ---------------------------------------------------------------------------------


def next_command(found: Mapping[str, Framework]) -> str:
    """Return what to type next: the smallest check there is, or this command once more."""
    works = all(each.works for each in found.values())
    return to_type("check", "fastformer") if works else to_type("doctor")


def what_to_install(framework: Framework) -> str:
    """Return the command that brings a missing or broken framework."""
    side = framework.side
    index = ["--extra-index-url", _CPU_INDEX] * (side == "torch" and sys.platform == "linux")
    if framework.is_here:
        lacks = "no numpy" in framework.problem
        return to_pip(*(["numpy"] if lacks else ["--force-reinstall", _PACKAGES[side], *index]))
    return to_make("install") if IN_A_CHECKOUT else to_pip(_PACKAGES[side], *index)


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


def order(version: str) -> tuple[int, ...]:
    """Return a version's numbers, without what its build is called."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


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
    version, built_for = framework.version, framework.built_for
    if not framework.works:
        return Kind.FRAMEWORK_UNUSABLE(problem=framework.problem)
    build = Kind.BUILT_FOR(system=built_for) if built_for else Kind.BUILT_FOR_CPU()
    said = {"version": version, "build": build, "tried": tried(framework.side, version)}
    return Kind.FRAMEWORK_WORKS(**said, file=framework.file)


def _of_gpus(found: Mapping[str, Framework], has_gpu: bool) -> str:
    blind = [side for side in SIDES if not found[side].gpus]
    if not blind:
        return Kind.GPU_OF_BOTH(gpu=found[SIDES[0]].gpus[0])
    if has_gpu or len(blind) < len(SIDES):
        return Kind.GPU_NOT_USABLE(sides=blind)
    return Kind.GPU_NONE()
