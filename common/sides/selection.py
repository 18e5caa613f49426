"""Which values inside a model are looked at: all, none, or those that patterns name.

A name is torch's name of a probed module, or of a named intermediate (`tap`) in one.  A pattern
without `*`, `?` and `[` is a module's name, and stands for all within that module too; one with any
of them is a shell's, for the whole name, whose `*` goes past dots.
"""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind

_SHOWN = 5  # names in a sentence


class Selection:
    """What `--probe` and `--no-probe` leave to be looked at; without them everything.

    Patterns are told on the reference's names: the Paddle side renames its own before it asks.
    """

    def __init__(self, patterns: Sequence[str] = (), nothing: bool = False):
        self.patterns = tuple(patterns)
        self.nothing = nothing
        self.complete = False  # no model with other modules comes after the one that runs
        self._named: dict[str, tuple[str, ...]] = {}  # name that was asked for -> its patterns
        self._seen: set[str] = set()  # patterns of which a value was logged

    @property
    def is_partial(self) -> bool:
        """True where not everything is looked at."""
        return self.nothing or bool(self.patterns)

    def takes(self, name: str) -> bool:
        """Whether this module or intermediate is looked at."""
        if not self.is_partial:
            return True
        if name not in self._named:
            self._named[name] = tuple(p for p in self.patterns if _matches(name, p))
        return bool(self._named[name]) and not self.nothing

    def saw(self, name: str) -> None:
        """A value of this module or intermediate was logged."""
        if self.patterns:
            self._seen.update(self._named.get(name, ()))

    def refuse_unseen(self) -> None:
        """Raise UserError for a pattern of which nothing was logged, where nothing can follow."""
        for pattern in self.patterns if self.complete else ():
            if pattern in self._seen:
                continue
            idle = [name for name, patterns in self._named.items() if pattern in patterns]
            if idle:
                raise UserError(Kind.PROBE_IDLE(pattern=pattern, name=idle[0]))
            known = _some(pattern, self._named)
            raise UserError(Kind.PROBE_UNKNOWN(pattern=pattern, known=known))


def _matches(name: str, pattern: str) -> bool:
    """True where a pattern names this, or a module that this is in."""
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(name, pattern)
    return name == pattern or name.startswith(f"{pattern}.")


def _some(pattern: str, names: Iterable[str]) -> str:
    """A few of the names in words, those first that are most like the pattern."""
    names = list(names)
    like = difflib.get_close_matches(pattern, names, _SHOWN, 0.0) if pattern else []
    shown = list(dict.fromkeys([*like, *names]))[:_SHOWN]
    several = Kind.PROBES_KNOWN(count=len(names), names=", ".join(shown))
    return several if names else Kind.PROBES_NONE()
