"""Words for people: what a user may have meant, how many there are of what."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean A or B?` of the names that are closest; empty where none is close."""
    names = {str(name).lower(): str(name) for name in known}
    near = get_close_matches(word.lower(), names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(names[name] for name in near)}?" if near else ""


def number_of(count: int, what: str) -> str:
    """`1 row`, `2,048 rows`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
