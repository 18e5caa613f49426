"""Commands that need no rich, in the language that people read: their calls and lines."""

import argparse
import sys

from twincheck.common.system.door import NAME, in_help
from twincheck.common.system.extras import in_language, languages
from twincheck.common.system.reasons import Kind as CoreKind
from twincheck.extras.shared import Kind


class Parser(argparse.ArgumentParser):
    """A command line; what is wrong with one is said in a sentence.

    For commands that take none of a check's options, and import neither rich nor NumPy for them.
    """

    def __init__(self, command: str, description: str):
        plain = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog=f"{NAME} {command}",
            description=description,
            formatter_class=next((one.Help for one in languages()), plain),
            allow_abbrev=False,
        )
        self.add_argument("--lang", choices=("en", "zh"), help=Kind.OPTION_LANG())

    def error(self, message: str) -> None:
        """Say it, and end with status 2."""
        asked = in_help(f"{self.prog} --help")
        say_error(CoreKind.COMMAND_LINE_REFUSED(why=message, help=asked))
        self.exit(2)

    def format_help(self) -> str:
        """The help, with its commands as they are typed here."""
        return in_help(super().format_help())


def say(text: str) -> None:
    """Print a line."""
    print(in_language(text), flush=True)


def say_error(sentence: str) -> None:
    """One sentence on standard error."""
    print(in_language(CoreKind.ERROR_SAID(sentence=sentence)), file=sys.stderr)
