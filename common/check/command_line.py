"""The command line of every check: parse it, run the step, show the table, write --json.

`check_main` is what check_stepN.py calls.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from common.check.flags import Parser
from common.check.guard import guarded
from common.check.options import CheckOptions
from common.check.report_json import write_report
from common.check.result import overall_exit
from common.check.runner import run_step
from common.check.steps import Step
from common.report import terminal as report


def check_main(step: Step, arguments: Sequence[str] | None = None) -> int:
    """One step for the models asked for; prints the table and returns the exit status."""
    parser = Parser(sys.modules["__main__"].__doc__).take(*step.takes)
    given = parser.parse_args(arguments)
    options = CheckOptions.of(given)
    hint = "; --resume goes on with a training" if step.trains else ""
    return guarded(given.debug, lambda: check(step, options, given.json), hint)


def check(step: Step, options: CheckOptions, json_path: Path | None = None) -> int:
    """Run or judge one step, show it and write --json; returns the exit status."""
    with report.progress() as on_progress:
        results = run_step(step, options, on_progress)
    report.show_step(step, results)
    if json_path:
        write_report(json_path, results)
    return overall_exit(results)
