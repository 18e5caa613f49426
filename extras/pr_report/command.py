"""Write one Markdown file for a pull request: what a port's results show.

    twincheck pr-report --for formers|vision|contest --lang zh|en [--model NAME|FOLDER]
        [RESULTS ...] [--out FILE.md]

RESULTS are folders that checks wrote to (their --out, or a result folder); by default the steps'
own, step*/log.  Nothing is run again: what has no result is listed with the command that makes
one.  Exit status: 0 what there is agrees, 1 something is red (the file is written, and its first
lines say so), 2 no report: results are missing, torn, stale, or of several models.
"""

from collections.abc import Sequence
from pathlib import Path

from twincheck.common.check.options import Parser
from twincheck.common.check.result import shown
from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import for_logs
from twincheck.common.system.files import write_text
from twincheck.common.system.program import guarded
from twincheck.extras.pr_report import Kind
from twincheck.extras.pr_report.claims import KINDS
from twincheck.extras.pr_report.markdown import markdown, save_picture
from twincheck.extras.pr_report.results import find


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    options = _parser().parse_args(arguments)
    return guarded(options.debug, lambda: _write(options))


def _parser() -> Parser:
    parser = Parser(__doc__, "pr-report")
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS", help=Kind.OPTION_RESULTS()
    )
    parser.add_argument(
        "--for", dest="kind", choices=tuple(KINDS), required=True, help=Kind.OPTION_FOR()
    )
    parser.set_defaults(lang="en")  # of the file, which others read: not the locale's
    parser.take_other("model", metavar="NAME|FOLDER", help=Kind.OPTION_MODEL())
    parser.take_other("out", metavar="FILE", help=Kind.OPTION_OUT())
    return parser.take("debug")


def _write(options) -> int:
    found = find(options.results, options.model[-1] if options.model else None)
    out = options.out or for_logs() / "log" / f"pr-{found.model}-{options.kind}-{options.lang}.md"
    text, pictures = markdown(found, options.kind, options.lang, out.stem)
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, source in pictures.items():
        save_picture(source, out.parent / name)
    write_text(out, text)
    written = Kind.REPORT_WRITTEN_RED if found.red else Kind.REPORT_WRITTEN
    report.say(written(path=shown(out)))
    return 1 if found.red else 0
