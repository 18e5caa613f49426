"""What the checks of steps 1, 3 and 4 get from this extra: --mend.

A red check goes on as `twincheck mend` does, for as long as it took itself, but for a proof that
has begun; then it asks, where somebody can answer.  Its --json has `mend` in the first finding.
"""

import sys
import time
from argparse import Namespace
from pathlib import Path

from twincheck.common.check.command_line import Added, check
from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check.runner import base_folder
from twincheck.common.check.steps import Step
from twincheck.common.report.commands import OTHER
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language
from twincheck.common.system.json_file import load_json, write_json
from twincheck.extras.mend import Kind
from twincheck.extras.mend.command import PATIENCE_S, looked_for
from twincheck.extras.shared.sides import only_pair

LEAST_S = 10  # of a small model's check
# With these the check is of something else than the search, or runs nothing.
NO_USE = {*OTHER, "compare-only"}


def add(parser: Parser) -> None:
    """Give the check's parser the option."""
    parser.add_argument("--mend", action="store_true", help=Kind.OPTION_MEND())


def run(step: Step, given: Namespace) -> int:
    """The check, and where it is red the search; the check's exit status."""
    idle = sorted(name for name, _ in given.typed if name in NO_USE)
    if idle:
        raise UserError(Kind.MEND_REFUSED(why=Kind.OPTION_IDLE(option=idle[0])))
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODELS_NOT_ONE_MEND())
    if pair.built_in:
        raise UserError(Kind.MEND_REFUSED(why=Kind.PAIR_BUILT_IN(model=pair.name)))
    began = time.monotonic()
    status = check(step, options)
    if status != 1:
        return status
    base = base_folder(step, options) / "mend"
    search = looked_for(pair, options, base, max(LEAST_S, int(time.monotonic() - began)))
    if not search.proven and sys.stdin.isatty() and sys.stdout.isatty():
        question = in_language(Kind.LOOK_ON(seconds=PATIENCE_S))
        if input(f"{question} [y/n] ").strip().lower()[:1] == "y":
            search = looked_for(pair, options, base, PATIENCE_S)
    if given.json and search.proven:
        _tell(given.json, search.as_json())
    return status


def _tell(path: Path, mend: dict) -> None:
    """Put the mend into the first finding of a check's JSON."""
    told = load_json(path)
    for finding in told["findings"][:1]:
        finding["mend"] = {name: mend[name] for name in ("edits", "proven", "diff", "seconds")}
    write_json(path, told)


ADDED = Added(add, ("mend",), run)
