"""Which differences in single-step mode start where they are seen, and which came around a module.

Modules are fed the reference's values, so that what one does wrong ends at its outputs.  The code
between them, the parent's, keeps its own: a residual stream that one line spoils stays spoilt, and
is seen again at the inputs of every module that it is added to.  NumPy only.
"""

from collections.abc import Collection

import numpy as np

from common.logs.key import Key, parent_of

_SAME = 1e-6  # of the difference: how far two of them may part, but for a factor
_MOST = 1 << 22  # elements of a difference that is remembered


def parent_code(key: Key, modules: Collection[str]) -> str | None:
    """The module whose own code made a row's value, or handed its gradient back; None if none did.

    modules  the names of all probed modules of the case, without its prefix
    That is the parent of a module whose input it is (`a.b:in/0`), or whose output's gradient
    (`grad_of/a.b`); the whole model, "", also for its inputs' gradients.
    """
    if key.run:
        return None
    if key.kind == "grad" and key.site.startswith("inputs/"):
        return ""
    is_made_around = key.is_input if not key.kind else key.kind == "grad_of" and not key.local
    if not is_made_around or key.choice:
        return None
    name = key.module(modules)
    if name is None:
        return None
    while name:
        name = parent_of(name)
        if name in modules:
            return name
    return ""


class Streams:
    """What the code of each module was seen to do wrong."""

    def __init__(self):
        self._seen: dict[tuple[str, str], list[np.ndarray]] = {}
        self._backward: set[tuple[str, str]] = set()
        self._keys: dict[tuple[str, str], list[str]] = {}  # those of the values that were seen

    def explains(
        self, key: Key, parent: str, ref64: np.ndarray | None, local64: np.ndarray | None
    ) -> bool:
        """True where a difference is one that this module's code had before, but for a factor.

        Of a value that one side alone has nothing is known (None), and nothing explains it.

        A gradient that comes around a module has been through the code in between, so that no
        factor is left to be seen: there one origin in a module's code stands for those after it.
        """
        code = (key.case, parent)
        if ref64 is None or local64 is None:
            return False
        if key.is_gradient:
            known = code in self._backward
            self._backward.add(code)
            if not known:
                self._keys.setdefault(code, []).append(str(key))
            return known
        if ref64.shape != local64.shape or ref64.size > _MOST or ref64.dtype.kind not in "fiub":
            return False
        with np.errstate(all="ignore"):
            off = (local64.astype(np.float64) - ref64).reshape(-1)
            known = any(_is_multiple(off, former) for former in self._seen.get(code, ()))
        if not known:
            self._seen.setdefault(code, []).append(off)
            self._keys.setdefault(code, []).append(str(key))
        return known

    def seen(self, key: Key, parent: str | None) -> list[str]:
        """The keys by which this module's code is known, before this one."""
        return list(self._keys.get((key.case, parent), ()))


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
