"""Words that a user may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean A or B?` of the names that are closest; empty where none is close."""
    names = {str(name).lower(): str(name) for name in known}
    near = get_close_matches(word.lower(), names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(names[name] for name in near)}?" if near else ""
