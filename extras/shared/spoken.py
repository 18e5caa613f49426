"""Lines of commands that need no rich, in the language that people read."""

import sys
from functools import cache, partial

from twincheck.common.system.extras import load_all

_languages = cache(partial(load_all, "twincheck.languages"))


def spoken(text: str) -> str:
    """A line as it is to be printed."""
    for language in _languages():
        text = language.plain(text)
    return text


def say(text: str) -> None:
    """Print a line."""
    print(spoken(text), flush=True)


def say_error(sentence: str) -> None:
    """One sentence on standard error."""
    print(spoken(f"error: {sentence}"), file=sys.stderr)
