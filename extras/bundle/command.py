"""Put what the checks have left into one file, for a reviewer.

    twincheck bundle [--from DIR] [--model NAME|FOLDER] [--out FILE]

`make check` ends by writing one.  It holds the guide's pairs and reprod_log's reports under the
names of all three dialects, every verdict, and the tensors behind those that may be doubted.
`twincheck verify FILE` verifies it, without either framework.  Nothing is run here.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check_all import all_steps
from twincheck.common.judge_again import judge_again
from twincheck.common.system.checkout import for_logs
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.program import guarded
from twincheck.extras.bundle import Kind
from twincheck.extras.bundle.results import NAME, bundle_results, say_written


@of_pairs("--from")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "bundle")
    parser.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="DIR",
        help=Kind.OPTION_FROM(),
    )
    parser.take_other("out", metavar="FILE", help=Kind.OPTION_OUT())
    options = parser.take("model", "allow", "strict", "debug").parse_args(arguments)
    return guarded(options.debug, lambda: _write(options))


def _write(options) -> int:
    given = replace(CheckOptions.of(options), out=options.source, typed=())
    base = options.source or for_logs() / "log"
    results = judge_again(all_steps(), given)
    say_written(bundle_results(results, given, options.out or base / NAME, base / "report.html"))
    return 0
