"""Check every published pair of the gallery, and write its page.

    twincheck gallery [--only NAME] [--family FAMILY] [--all] [--jobs N] [--cache DIR]
    twincheck gallery --page      write the pages from the stored results alone

Installs the pairs' packages into environments of their own, once; sets each pair up by its line in
pairs/*.txt and runs steps 1, 3 and 4, in train mode too where that is another function.  A pair
whose result is still valid is not run again, so that a gallery that was stopped goes on.  Writes
results/NAME.json, docs/gallery.md and docs/gallery.html.

Exit status: 0 every pair is aligned or has a finding that says why not, 1 not, 2 could not be run.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from twincheck.common.check.options import Parser, positive
from twincheck.common.report import terminal
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.program import guarded
from twincheck.common.system.words import did_you_mean
from twincheck.examples.gallery import environments, page, run
from twincheck.examples.gallery.run import Gallery, Result, read_result, write_result
from twincheck.examples.gallery.table import HERE, Line, read_findings, read_lines
from twincheck.extras.shared.jobs import run as run_jobs

CACHE = ROOT / ".environments" / "gallery"
RESULTS = HERE / "results"
STEPS = tuple(step.number for step in run.STEPS)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module's docstring."""
    parser = Parser(__doc__, "gallery")
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="this pair; may be repeated")
    add("--family", action="append", default=[], metavar="FAMILY", help="those of a file of pairs/")
    add("--all", action="store_true", help="those too that are marked + in pairs/")
    add("--jobs", type=positive, metavar="N", default=1, help="pairs at a time")
    add("--step", action="append", type=int, choices=STEPS, help="run this one; may be repeated")
    add("--cache", type=Path, default=CACHE, metavar="DIR", help="of environments and logs")
    add("--page", action="store_true", help="run nothing, write the pages from what is stored")
    given = parser.take("debug").parse_args(arguments)
    return guarded(given.debug, lambda: _main(given))


def _main(given) -> int:
    lines, findings = read_lines(), read_findings()
    if not given.page:
        chosen = choose(lines, given.only, given.family, given.all)
        # Small tensors gain nothing from threads; --jobs uses the other cores.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ["LANGUAGE"] = "en"  # its pages hold what checks print
        steps = tuple(given.step or STEPS)
        gallery = Gallery(given.cache.absolute(), tuple(findings), steps)
        for name in dict.fromkeys(name for line in chosen for name in line.environments):
            environments.install(name, gallery.cache)
        for repository, commit in dict.fromkeys(each for line in chosen for each in line.sources):
            environments.bring(repository, commit, gallery.cache)
        run_all(gallery, chosen, given.jobs)
    results = stored(lines)
    page.write(lines, results, findings)
    left = page.without_a_cause(results, findings)
    for name in left:
        terminal.say(f"{name} is not aligned, and no finding says why")
    return 1 if left else 0


def choose(
    lines: Sequence[Line], only: Sequence[str], families: Sequence[str], further: bool
) -> list[Line]:
    """The lines that are asked for, all where none is; raises UserError for unknown names.

    further   also those that run on request alone; one that is named runs in any case
    """
    for asked, known in (
        (only, [line.name for line in lines]),
        (families, [line.family for line in lines]),
    ):
        for name in asked:
            if name not in known:
                raise UserError(f"the gallery has no {name}{did_you_mean(name, known)}")
    return [
        line
        for line in lines
        if line.name in only
        or (further or not line.further)
        and (line.family in families or not (only or families))
    ]


def run_all(gallery: Gallery, lines: Sequence[Line], jobs: int) -> None:
    """Run what is not done, and store every result."""
    waiting = []
    for line in lines:
        result = gallery.kept(line)
        if result is None:
            waiting.append(line)
        else:
            write_result(RESULTS / f"{line.name}.json", result)
    if len(waiting) < len(lines):
        terminal.say(f"{len(lines) - len(waiting)} of {len(lines)} pairs are done already")
    names: list[str] = []

    def keep(line: Line, result: Result) -> None:
        names.append(line.name)
        write_result(RESULTS / f"{line.name}.json", result)
        terminal.say(told(result))
        on_progress(f"{len(names)} of {len(waiting)} pairs")

    with terminal.progress() as on_progress:
        run_jobs(gallery.run, waiting, jobs, keep)


def told(result: Result) -> str:
    """A line for people: a pair, its checks' verdicts, and with its mends."""
    words = [f"{result.name:28}", _verdicts(result.as_published)]
    if result.mended is not None:
        words.append(f"; mended: {_verdicts(result.mended)}")
    return " ".join(words) + f"; {result.as_published.seconds:.0f} s"


def _verdicts(outcome) -> str:
    if outcome.said:
        return f"not set up: {outcome.said}"
    return ", ".join(f"{page.heading(c.step, c.train)} {c.verdict}" for c in outcome.checks)


def stored(lines: Sequence[Line]) -> list[Result]:
    """What is stored of the pairs there are, in their order; what is of no pair is removed."""
    names = {line.name for line in lines}
    for path in RESULTS.glob("*.json"):
        if path.stem not in names:
            path.unlink()
    found = (read_result(RESULTS / f"{line.name}.json") for line in lines)
    return [result for result in found if result is not None]


if __name__ == "__main__":
    sys.exit(main())
