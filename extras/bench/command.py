"""How fast and how lean this workbench is, beside its peers: docs/performance.md.

    make bench                                  everything: an hour on two cores, 4 GB of packages
    twincheck bench --only sides          one row or panel; the others stay as they are
    twincheck bench --quick --out DIR     the smallest sizes, to try this program

Each peer is installed once, in its exact version, into an environment of its own.  Two sides are
two processes with one thread each that take turns, A B A B, after a first step that is not counted;
a row says the ratio of the medians and the spread of single turns, of wall time and of CPU time.
Every finished row is kept in docs/performance.json, from which table and picture are made.  Exit
status 0: measured, whatever the goals say; 2: something could not be.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import Parser, guarded, say_error
from twincheck.examples.gallery import environments
from twincheck.examples.gallery.__main__ import CACHE
from twincheck.extras.bench import Kind, page
from twincheck.extras.bench.comparisons import OWN, Comparison, Series, comparisons, series
from twincheck.extras.bench.turns import BenchError, measure_comparison, measure_series

REPETITIONS, QUICKLY = 5, 2
PAGE, RESULTS, PICTURE = "docs/performance.md", "docs/performance.json", "pics/performance.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__, "bench")
    turns, folder = Kind.HELP_REPETITIONS(turns=REPETITIONS), {"type": Path, "metavar": "DIR"}
    parser.add_argument("--only", action="append", metavar="NAME", help=Kind.HELP_ONLY())
    parser.add_argument("--list", action="store_true", help=Kind.HELP_LIST())
    parser.add_argument("--quick", action="store_true", help=Kind.HELP_QUICK())
    parser.add_argument("--repetitions", type=int, metavar="N", help=turns)
    parser.add_argument("--no-install", action="store_true", help=Kind.HELP_NO_INSTALL())
    parser.add_argument("--stored", action="store_true", help=Kind.HELP_STORED())
    parser.add_argument("--cache", **folder, default=CACHE, help=Kind.HELP_CACHE())
    parser.add_argument("--out", **folder, default=ROOT, help=Kind.HELP_OUT())
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    known = comparisons(options.quick) | series(options.quick)
    if options.list:
        for name, one in known.items():
            report.say(Kind.LISTED(name=f"{name:20}", title=one.title))
        return 0
    wrong = [name for name in options.only or () if name not in known]
    if wrong:
        raise UserError(Kind.ONLY_UNKNOWN(name=wrong[0], names=list(known)))
    if options.quick and options.out.resolve() == ROOT:
        raise UserError(Kind.QUICK_INTO_PAGE())
    if options.repetitions is not None and options.repetitions < 1:
        raise UserError(Kind.REPETITIONS_FEW(count=options.repetitions))
    results = _stored(options.out / RESULTS)
    missing = []
    if not options.stored:
        repetitions = options.repetitions or (QUICKLY if options.quick else REPETITIONS)
        chosen = {name: one for name, one in known.items() if name in (options.only or known)}
        missing = _measure(chosen, repetitions, options, results)
    _write(options, known, results)
    for sentence in missing:
        say_error(sentence)
    return 2 if missing else 0


def _stored(path: Path) -> dict:
    """Name -> what was measured, of an earlier run; raises UserError for a file of another kind."""
    if not path.exists():
        return {}
    found = load_json(path)
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise UserError(Kind.RESULTS_OF_ANOTHER(path=str(path)))
    return found


def _measure(chosen: dict, repetitions: int, options: argparse.Namespace, results: dict) -> list:
    """Measure row by row and keep each as it is finished; what could not be, in sentences."""
    missing = []
    with tempfile.TemporaryDirectory(prefix="bench-") as name, report.progress() as on_progress:
        for number, (row, one) in enumerate(chosen.items(), 1):
            on_progress(Kind.NOW(row=row, number=number, count=len(chosen)))
            try:
                pythons = _pythons(one, options)
                if isinstance(one, Comparison):
                    found = measure_comparison(one, pythons, repetitions, Path(name))
                else:
                    found = measure_series(one, pythons, Path(name))
            except BenchError as error:
                missing.append(Kind.NOT_MEASURED(row=row, why=str(error)))
                continue
            results[row] = found | {"machine": page.machine()}
            (options.out / RESULTS).parent.mkdir(parents=True, exist_ok=True)
            write_json(options.out / RESULTS, results)
            if isinstance(one, Comparison):
                report.say(page.line(one, found))
    return missing


def _pythons(one: Comparison | Series, options: argparse.Namespace) -> dict[str, str]:
    """Environment -> its Python; installs what is missing.  Raises BenchError where it may not."""
    sides = one.programs if isinstance(one, Series) else (one.ours, one.other)
    found = {OWN: sys.executable}
    for name in dict.fromkeys(side.environment for side in sides if side.environment):
        folder = environments.place(name, options.cache.absolute())
        if options.no_install and not (folder / environments.STAMP).is_file():
            raise BenchError(Kind.ENVIRONMENT_MISSING(name=name, folder=str(options.cache)))
        environments.install(name, options.cache.absolute())
        found[name] = environments.python(folder)
    return found


def _write(options: argparse.Namespace, known: dict, results: dict) -> None:
    """Table and picture from all that is stored."""
    rows = {name: one for name, one in known.items() if name in results}
    text = page.filled((ROOT / PAGE).read_text(), rows, results)
    page.draw(
        {n: one for n, one in rows.items() if isinstance(one, Series)},
        results,
        options.out / PICTURE,
    )
    write_text(options.out / PAGE, text)
    report.say(Kind.WRITTEN(path=os.path.relpath(options.out / PAGE)))
