"""Which versions the workbench was tried with; docs/environments.md says what passed in each."""

import re

from twincheck.extras.doctor import Kind

# In order.  extras/doctor/tests/test_doctor.py compares them with the page's table.
TRIED = {
    "python": ("3.10.13", "3.11.7", "3.12.1", "3.13.0"),
    "numpy": ("1.26.4", "2.4.6", "2.5.5"),
    "torch": ("2.4.1", "2.8.0", "2.13.0"),
    "paddle": ("2.6.2", "3.0.0", "3.1.1", "3.2.2", "3.3.1"),
}
_PARTS = {"python": 2}  # of a version, that tell it from the next; else three


def order(version: str) -> tuple[int, ...]:
    """A version's numbers, without what its build is called."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def tried(name: str, version: str) -> str:
    """In words, whether a version is among those that were tried."""
    parts = _PARTS.get(name, 3)
    known, own = [order(one)[:parts] for one in TRIED[name]], order(version)[:parts]
    if own in known:
        return Kind.VERSION_TRIED()
    if not own:
        return Kind.VERSION_UNKNOWN()
    if own > known[-1]:
        return Kind.VERSION_NEWER(last=TRIED[name][-1])
    if own < known[0]:
        return Kind.VERSION_OLDER(first=TRIED[name][0])
    below = max(one for one in known if one < own)
    at = known.index(below)
    return Kind.VERSION_BETWEEN(below=TRIED[name][at], above=TRIED[name][at + 1])
