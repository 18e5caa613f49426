"""Which differences in single-step mode start where they are seen, and which came around a module.

Modules are fed the reference's values, so that what one does wrong ends at its outputs.  The code
between them, the parent's, keeps its own: a residual stream that one line spoils stays spoilt, and
is seen again at the inputs of every module that it is added to.  NumPy only.
"""

import re
from collections.abc import Collection

import numpy as np

_SAME = 1e-6  # of the difference: how far two of them may part, but for a factor
_MOST = 1 << 22  # elements of a difference that is remembered


def parent_code(key: str, prefix: str, modules: Collection[str]) -> str | None:
    """The module whose own code made a row's value, or handed its gradient back; None if none did.

    key      below `prefix`, the case's; modules  the names of all probed modules
    That is the parent of a module whose input it is (`a.b:in/0`), or whose output's gradient
    (`grad_of/a.b`); the whole model, "", also for its inputs' gradients.
    """
    name = key[len(prefix) :]
    if name.startswith("grad/inputs/"):
        return ""
    backward = name.startswith("grad_of/")
    name = name.removeprefix("grad_of/")
    if backward == (":in/" in name) or ":" in name.replace(":in/", "", 1):
        return None
    name = re.split("[:#@]", name)[0]
    while name and name not in modules and "/" in name:
        name = name.rpartition("/")[0]  # `name/1` is an output of `name`
    if name not in modules:
        return None
    while name:
        name = name.rpartition(".")[0]
        if name in modules:
            return name
    return ""


class Streams:
    """What the code of each module was seen to do wrong."""

    def __init__(self):
        self._seen: dict[tuple[str, str], list[np.ndarray]] = {}
        self._backward: set[tuple[str, str]] = set()

    def explains(self, case: str, parent: str, key: str, ref64, local64) -> bool:
        """True where a difference is one that this module's code had before, but for a factor.

        A gradient that comes around a module has been through the code in between, so that no
        factor is left to be seen: there one origin in a module's code stands for those after it.
        """
        if "grad_of/" in key or "grad/" in key:
            known = (case, parent) in self._backward
            self._backward.add((case, parent))
            return known
        if ref64.shape != local64.shape or ref64.size > _MOST:
            return False
        with np.errstate(all="ignore"):
            off = (local64.astype(np.float64) - ref64).reshape(-1)
            known = any(_is_multiple(off, former) for former in self._seen.get((case, parent), ()))
        if not known:
            self._seen.setdefault((case, parent), []).append(off)
        return known


def _is_multiple(off: np.ndarray, former: np.ndarray) -> bool:
    """True where `off` is `former` times a factor."""
    if off.shape != former.shape or off.size < 2:
        return False
    square = float(former @ former)
    size = float(off @ off)
    if not (0.0 < square < np.inf and 0.0 < size < np.inf):
        return False
    left = off - former * (float(off @ former) / square)
    return float(left @ left) <= _SAME**2 * size
