"""Words for people: the sides' names, what a user may have meant, text of others made harmless."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind

_CALLED = {
    "torch": "torch",
    "paddle": "Paddle",
    "paddle-static": Kind.CALLED_STATIC_PADDLE(),
}
_names = dict.fromkeys(SIDES, "")  # side -> what people read of it; empty: its framework's name
# As a word of a sentence: no part of a path, of an option, of a name in code, of JSON.
_WORD = re.compile(
    r"(?<![\w./\"'`=-])(?<!--candidate )(?<!--against )(torch|[Pp]addle)(?![\w./\"`-]|'(?!s\b))",
    re.A,
)
_FIELD = re.compile(r"(\{[^{}]*\})")


def call_sides(backends: Sequence[str]) -> None:
    """Call the two sides after what computes them, where that is not one of each."""
    called = [_CALLED.get(name, "") for name in backends]  # a sidecar may say anything
    if not all(called):
        called = ["", ""]
    elif len(set(called)) == 1:
        called = [Kind.CALLED_REFERENCE(), Kind.CALLED_CANDIDATE()]
    _names.update(zip(SIDES, ["", ""] if tuple(backends) == SIDES else called, strict=True))


def named(template: str, said: Callable[[str], str] = str) -> str:
    """Return a template with the sides' names in its words, as `said` has them in its language."""
    if not any(_names.values()):
        return template
    names = {side: said(name) for side, name in _names.items()}
    parts = _FIELD.split(template)
    parts[::2] = [_WORD.sub(lambda found: names[found[0].lower()], part) for part in parts[::2]]
    return "".join(parts)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean A or B?` of the names that are closest; empty where none is close."""
    names = {str(name).lower(): str(name) for name in known}
    near = get_close_matches(word.lower(), names, n=3, cutoff=0.6)
    return Kind.DID_YOU_MEAN(names=[names[name] for name in near]) if near else ""


def printable(text: str) -> str:
    """Text from a file, shortened and without control characters, for a message."""
    return escaped(text if len(text) <= 80 else f"{text[:77]}...")


def escaped(text: str) -> str:
    """Text from a file without control characters, which may be commands to a terminal."""
    return text if text.isprintable() else ascii(text)
