"""The command line of every check: parse it, run the step, show the table, write --json.

`check_main` is what check_stepN.py calls.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from common.check.flags import Parser
from common.check.guard import guarded
from common.check.options import CheckOptions
from common.check.result import Result
from common.check.runner import run_step
from common.check.steps import Step
from common.report import terminal as report
from common.system.files import write_text
from common.verdict.row import worst


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
        write_json(json_path, results)
    return overall_exit(results)


def overall_exit(results: Sequence[Result]) -> int:
    """The worst exit status of all results; nothing compared is 2."""
    return max((result.exit_code for result in results), default=2)


def write_json(path: Path, results: Sequence[Result], **more: object) -> None:
    """Write every row and what they come to as JSON, and what else is given; all or nothing."""
    first = next((r.first_diverged for r in results if r.first_diverged is not None), None)
    guides = [r.guide_passed for r in results if r.guide_passed is not None]
    reports = [r.reprod_log for r in results if r.reprod_log is not None]
    document = {
        "verdict": worst([r.verdict for r in results]),
        "exit_code": overall_exit(results),
        "guide_passed": all(guides) if guides else None,
        "reprod_log": all(reports) if reports else None,
        "first_diverged": first.key if first is not None else None,
        "answers": {r.model: r.answers for r in results if r.answers},
        "errors": {r.model: r.error for r in results if r.error},
        "rows": [row.as_json() for result in results for row in result.rows],
        **more,
    }
    write_text(path, json.dumps(document, indent=1, allow_nan=False))
