"""A command's parser: it takes options by their names, of those that are declared as fields.

An option that a command does not take is an error there, and not in its --help.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from common.check.options import OPTIONS
from common.logs.pickle_machine import printable
from common.system.words import did_you_mean


def at_least(least: int) -> Callable[[str], int]:
    """What reads a whole number from `least` on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {least}")
        return int(text)

    return number


natural, positive = at_least(0), at_least(1)


def of(*groups: str) -> tuple[str, ...]:
    """The options of some groups, in the order of --help: the check's own of a group come first."""
    return tuple(name for group in groups for name, one in OPTIONS.items() if one.of == group)


OF_EVERY_CHECK = of("run", "logs", "judging", "pythons", "output")
OF_HALF = of("half")  # steps 1, 3, 4 and 5
OF_JUDGING = tuple(name for name, one in OPTIONS.items() if one.judges)
HELP = "help"  # as a value: lists what the option takes
# Options that take it, beside those with choices.
LISTED = ("model", "preset", "case", "transplant")


class Parser(argparse.ArgumentParser):
    """A command's parser: its description as it is written, and options by their names.

    What it has parsed has `typed`: option -> words, as the command line gave them.
    """

    def __init__(self, description: str | None, prog: str | None = None):
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # --mode is no short --model where a check has no modes
        )

    def take(self, *names: str) -> "Parser":
        """Take options of the table."""
        for name in names:
            self.take_other(name)
        return self

    def take_other(self, name: str, **other: object) -> "Parser":
        """Take an option of the table, in a meaning that differs in what is given."""
        one = OPTIONS[name]
        number = {} if one.least is None else {"type": at_least(one.least)}
        self.add_argument(f"--{name}", **{**number, **one.told, **other})
        return self

    def parse_args(self, args=None) -> argparse.Namespace:
        """What a command line gives; `--preset help` and its like list values, and end there."""
        words = list(sys.argv[1:] if args is None else args)
        if "--mode" in self._option_string_actions:  # as it was called before
            words = ["--mode=train" if word == "--train" else word for word in words]
        asked, others = self._values_asked_for(words)
        if asked:
            from common.check.listing import show_values

            for action in self._actions:
                action.required = False
            self.exit(show_values(asked, super().parse_args(others)))
        usual = {action.dest: _Usual() for action in self._actions if action.dest != HELP}
        told = super().parse_args(words, argparse.Namespace(**usual))
        given = vars(told)
        typed = tuple(
            (option.removeprefix("--"), tuple(_words(option, action, given[action.dest])))
            for action in self._actions
            for option in action.option_strings[-1:]
            if action.dest in given and given[action.dest] is not usual[action.dest]
        )
        for dest, value in given.items():
            default = self.get_default(dest) if value is usual[dest] else value
            given[dest] = list(default) if isinstance(default, list) else default
        told.typed = typed
        return told

    def error(self, message: str) -> NoReturn:
        """End with one sentence on what was typed, and status 2."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            names = [word.partition("=")[0] for word in unknown.split()]
            names = [name for name in names if name.startswith("-")] or names
            taken = [option for action in self._actions for option in action.option_strings]
            elsewhere = all(name.removeprefix("--") in OPTIONS for name in names)
            said = " has no use here" if elsewhere else ": there is no such option"
            message = f"{', '.join(names)}{said}{did_you_mean(names[0], taken)}"
        self.exit(2, f"error: {printable(message)} ({self.prog} --help lists what it takes)\n")

    def _values_asked_for(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """The options whose values are asked for, and the words beside them."""
        taken = {option for action in self._actions for option in action.option_strings}
        asked, others = [], []
        for word in words:
            name, is_joined, value = word.partition("=")
            name = name if is_joined else "".join(others[-1:])
            one = OPTIONS.get(name.removeprefix("--")) if name in taken else None
            lists = one is not None and (one.name in LISTED or one.told.get("choices"))
            if lists and (value if is_joined else word) == HELP:
                asked.append(one.name)
                others = others if is_joined else others[:-1]
            else:
                others.append(word)
        return asked, others


class _Usual(list):
    """In the place of an option's default till it is typed: what several are added to."""


def _words(option: str, action: argparse.Action, value: object) -> list[str]:
    """An option as it is typed; a value that begins with a dash goes behind a `=`."""
    if action.nargs == 0:
        return [option]
    words = []
    for text in map(str, value if isinstance(value, list) else [value]):
        words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return words
