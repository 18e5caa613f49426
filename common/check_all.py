"""`make check`: steps 1 to 5 for every built-in model, one table, one exit status.

python -m common.check_all [--json FILE] [--out DIR] [--model NAME]

Every row is in log/report.json, in short where it agrees, or in full in FILE; the table is in
log/report.txt beside it, and the logs are in stepN_*/log (or DIR).  All of it that somebody needs
who is to believe it is in log/bundle.zip (common/bundle.py).
"""

import importlib
import signal
import sys
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":  # till all is imported, and nothing begun, Ctrl-C ends it without a word
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from common.check.bundle import NAME, bundle_results, say_written  # noqa: E402
from common.check.flags import (  # noqa: E402
    OF_DATA,
    OF_EVERY_CHECK,
    OF_TRAINING,
    OF_TRANSPLANTS,
    Parser,
)
from common.check.guard import guarded  # noqa: E402
from common.check.options import CheckOptions  # noqa: E402
from common.check.report_json import write_report  # noqa: E402
from common.check.result import overall_exit  # noqa: E402
from common.check.runner import run_step  # noqa: E402
from common.check.steps import Step  # noqa: E402
from common.report import terminal as report  # noqa: E402
from common.system.checkout import ROOT  # noqa: E402
from common.system.files import write_text  # noqa: E402


def all_steps() -> list[Step]:
    """The five steps, each from its own check script."""
    found = []
    for path in sorted(ROOT.glob("step*/check_step*.py")):
        found.append(importlib.import_module(f"{path.parent.name}.{path.stem}").STEP)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run every step and show the table; returns the exit status."""
    parser = Parser(__doc__, "python -m common.check_all")
    parser.take(*OF_EVERY_CHECK, *OF_TRANSPLANTS, "train", *OF_DATA, *OF_TRAINING)
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: _check_all(CheckOptions.of(given), given.json))


def _check_all(options: CheckOptions, json_path: Path | None) -> int:
    steps = all_steps()
    options = replace(options, keep_seen=True)
    results = []
    with report.progress() as on_progress:
        for step in steps:
            results += run_step(step, options.taken_by(step.takes), on_progress)
    table = report.show_all(steps, results)
    written = json_path or (options.out or ROOT / "log") / "report.json"
    write_report(written, results, short=json_path is None)
    write_text(written.with_suffix(".txt"), table)
    if any(not result.error for result in results):
        base = options.out or ROOT / "log"
        say_written(bundle_results(results, options, base / NAME, base / "report.html"))
    return overall_exit(results)


if __name__ == "__main__":
    sys.exit(main())
