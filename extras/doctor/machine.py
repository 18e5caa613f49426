"""The machine itself: cores, memory, fork, a driver of GPUs."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_DRIVER = Path("/proc/driver/nvidia/version")
# A container's limit, of either version of control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Machine:
    """What a check can have of this machine."""

    cores: int
    memory_bytes: int | None  # None where the system does not say
    fork: bool
    nvidia_driver: bool
    tf32: str  # what NVIDIA_TF32_OVERRIDE says


def look() -> Machine:
    """What this machine has, for this process."""
    driver = _DRIVER.exists() or shutil.which("nvidia-smi") is not None
    fork, tf32 = hasattr(os, "fork"), os.environ.get("NVIDIA_TF32_OVERRIDE", "")
    return Machine(cores(), memory_bytes(), fork, driver, tf32)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """How much memory this process may use: the machine's, or its container's."""
    found = []
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        with suppress(ValueError, OSError):  # "max" is no number
            found.append(int(Path(path).read_text()))
    return min(found, default=None)
