"""Commands that need no rich, in the language that people read: their calls and lines."""

import argparse
import sys
from functools import cache, partial

from twincheck.common.system.extras import load_all

_languages = cache(partial(load_all, "twincheck.languages"))


def spoken(text: str) -> str:
    """A line as it is to be printed."""
    for language in _languages():
        text = language.plain(text)
    return text


class Parser(argparse.ArgumentParser):
    """A command line; what is wrong with one is said in a sentence."""

    def __init__(self, prog: str, description: str):
        plain = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=next((one.Help for one in _languages()), plain),
            allow_abbrev=False,
        )
        self.add_argument(
            "--lang", choices=("en", "zh"), help="language, or the locale's: --lang zh"
        )

    def error(self, message: str) -> None:
        """Say it, and end with status 2."""
        self.exit(2, spoken(f"error: {message} ({self.prog} --help lists what it takes)") + "\n")


def say(text: str) -> None:
    """Print a line."""
    print(spoken(text), flush=True)


def say_error(sentence: str) -> None:
    """One sentence on standard error."""
    print(spoken(f"error: {sentence}"), file=sys.stderr)
