"""`make check`: steps 1 to 5 for every built-in model, one table, one exit status.

python -m common.check_all [--json FILE] [--out DIR] [--model NAME]

Every row is in log/report.json (or FILE) and the table in log/report.txt beside it; the logs are in
stepN_*/log (or DIR).
"""

import importlib
import signal
import sys

if __name__ == "__main__":  # till all is imported, and nothing begun, Ctrl-C ends it without a word
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from common.check.command_line import (  # noqa: E402
    guarded,
    overall_exit,
    parser,
    run_step,
    write_json,
    write_text,
)
from common.check.steps import Step  # noqa: E402
from common.report import terminal as report  # noqa: E402
from common.system.checkout import ROOT  # noqa: E402


def all_steps() -> list[Step]:
    """The five steps, each from its own check script."""
    found = []
    for path in sorted(ROOT.glob("step*/check_step*.py")):
        found.append(importlib.import_module(f"{path.parent.name}.{path.stem}").STEP)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run every step and show the table; returns the exit status."""
    options = parser(__doc__).parse_args(arguments)
    return guarded(options, lambda: _check_all(options))


def _check_all(options) -> int:
    steps = all_steps()
    results = []
    with report.progress() as on_progress:
        for step in steps:
            results += run_step(step, options, on_progress)
    table = report.show_all(steps, results)
    written = options.json or (options.out or ROOT / "log") / "report.json"
    write_json(written, results)
    write_text(written.with_suffix(".txt"), table)
    return overall_exit(results)


if __name__ == "__main__":
    sys.exit(main())
