"""The command line of every check: parse it, run the step, show it, write --json and a page.

`of_step` makes a step's command.  What extras add to a check are entry points in the group of its
command, twincheck.check_step2 for one; each has the name of an option that it adds, and several may
name the same.
"""

import argparse
import importlib
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check.report_json import json_text, told_in
from twincheck.common.check.result import Result, overall_exit
from twincheck.common.check.runner import base_folder, run_step
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.report import html_page
from twincheck.common.report import terminal as report
from twincheck.common.report.commands import whole
from twincheck.common.report.sentences import step_title
from twincheck.common.report.summary import last_line
from twincheck.common.system import extras
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.files import write_text
from twincheck.common.system.program import guarded, say_error
from twincheck.common.system.reasons import Kind


@dataclass(frozen=True)
class Added:
    """An extra's addition to a check: its options, and what runs where they are typed."""

    add: Callable[[Parser], None]  # gives the check's parser its options
    options: tuple[str, ...]  # those of them that ask for it
    run: Callable[[Step, Namespace], int]  # returns the exit status
    hint: str = ""  # what to say where the user stopped it


def added_to(step: Step, parser: Parser) -> list[Added]:
    """Return what extras add to a step's check, having given its parser their options.

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
        say_error(str(self.const))
        parser.exit(2)


def check_main(
    step: Step, arguments: Sequence[str] | None = None, processes: Processes | None = None
) -> int:
    """One step for the models asked for; prints the table and returns the exit status.

    processes   as run_step takes them
    """
    parser = parser_of(step)
    added = added_to(step, parser)
    given = parser.parse_args(arguments)
    typed = {name for name, _ in given.typed}
    for each in added:
        if typed & set(each.options):
            return guarded(given.debug, partial(each.run, step, given), each.hint)
    options = CheckOptions.of(given)
    hint = Kind.RESUME_GOES_ON() if step.trains else ""
    return guarded(given.debug, lambda: check(step, options, processes=processes), hint)


def of_step(step: Step) -> Callable[..., int]:
    """Return the command of one of the five steps."""
    return of_pairs("--out")(partial(check_main, step))


def parser_of(step: Step) -> Parser:
    """Return the parser of one of the five steps' checks."""
    doc = importlib.import_module(f"twincheck.{step.name}.step").__doc__
    return Parser(doc, step.command).take(*step.takes)


def check(
    step: Step,
    options: CheckOptions,
    processes: Processes | None = None,
) -> int:
    """Run or judge one step, show it, write --json and the page; returns the exit status.

    processes: as run_step takes them.
    """
    with told_in(options.json), report.progress() as on_progress:
        results = run_step(step, options, on_progress, processes)
    report.show_step(step, results)
    page = write_step_page(step, options, results)
    if options.json:
        summary = str(last_line(results, page, says_next=False))
        write_text(options.json, json_text(results, summary=summary))
    if not all(result.error for result in results):  # which have said it
        report.say(last_line(results, page))
    return overall_exit(results)


def write_step_page(step: Step, options: CheckOptions, results: Sequence[Result]) -> Path | None:
    """Write the page of a step beside its results, unless --no-report was given; returns it."""
    if options.no_report:
        return None
    name = Kind.STEP_NAMED(step=step.number, name=step_title(step))
    command = whole(step.command, options.typed)
    return write_page(base_folder(step, options), results, command, name)


def write_page(folder: Path, results: Sequence[Result], command: str, name: str) -> Path | None:
    """Write report.html; returns it, or None.  Where it cannot be written, the verdict stays.

    Where nothing could be compared there is nothing to show, and a former page stays.
    """
    if all(result.error for result in results):
        return None
    path = folder / html_page.FILE
    try:
        html_page.write_page(path, results, command, name)
    except UserError as error:
        report.say(Kind.PAGE_NOT_WRITTEN(why=str(error)))
        return None
    return path
