"""What extras add to a check: options, and what is run in its place where one of them is typed.

The entry points of a check are the group of its script, twincheck.check_step2 for one;
each has the name of an option that it adds, and several may name the same.
"""

import argparse
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass

from twincheck.common.check.options import Parser
from twincheck.common.check.steps import Step
from twincheck.common.system import extras
from twincheck.common.system.errors import UserError


@dataclass(frozen=True)
class Added:
    """What an extra adds to a check."""

    add: Callable[[Parser], None]  # gives the check's parser its options
    options: tuple[str, ...]  # those of them that ask for it
    run: Callable[[Step, Namespace], int]  # returns the exit status
    hint: str = ""  # what to say where the user stopped it


def added_to(step: Step, parser: Parser) -> list[Added]:
    """What extras add to a step's check, whose parser has their options now.

    An option of an extra that is not there ends the check with a sentence that says so.
    """
    group = f"twincheck.check_{step.other or step.command}"
    added = []
    for name in extras.entry_points(group):
        try:
            added.append(extras.load(group, name))
        except UserError as error:
            parser.add_argument(f"--{name}", action=_Absent, const=error, help=argparse.SUPPRESS)
    added = list(dict.fromkeys(added))
    for each in added:
        each.add(parser)
    return added


class _Absent(argparse.Action):
    """An option that its extra would have given; `const` says why it is not there."""

    def __call__(self, parser, *given: object) -> None:
        parser.exit(2, extras.in_language(f"error: {self.const}\n"))
