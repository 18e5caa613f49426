"""Plant the faults of ports, and see whether `twincheck mend` undoes them.

    python -m faults.mends [--only ID] [--model NAME] [--every N] [--json FILE]

Of each fault of the catalogue that is in a port's own file, the pair is copied, the fault is
planted, and the search runs as the command does, with the --dtype that the fault is found with.
"undone": the source is the correct one again but for how it is written, such as a default that is
given; "as good": another source, which the check finds as right; "doubtful": one that the search
itself calls so; "none": no mend was found.  Exit status 0.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich")

import argparse
import ast
import inspect
import json
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, reduce

from faults.catalogue import FAULTS
from faults.checkout import change
from faults.fault import Fault
from faults.warm import Interpreters
from twincheck.common.check.guard import guarded
from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.pair.pairs import load_pair
from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.extras.mend.command import PATIENCE_S, Search

UNDONE, AS_GOOD, NONE, GREEN = "undone", "as good", "none", "not red"
DOUBTFUL = "doubtful"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="ID", help="this fault alone")
    parser.add_argument("--model", action="append", help="faults of this model alone")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th alone")
    parser.add_argument("--seconds", type=int, default=PATIENCE_S, metavar="S", help="for each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what came of each")
    options = parser.parse_args(arguments)
    return guarded(False, lambda: _run(options))


def of_ports(faults: Sequence[Fault] = FAULTS) -> list[Fault]:
    """Those that are planted in a port's own file.

    What a check refuses has no values to search by; generation has a check of its own.
    """
    found = [f for f in faults if f.file.endswith("paddle_model.py")]
    return [f for f in found if not f.refused and not f.check]


def _run(options: argparse.Namespace) -> int:
    chosen = [f for f in of_ports() if not options.only or f.id in options.only]
    chosen = [f for f in chosen if not options.model or f.model in options.model]
    told = []
    with Interpreters() as warm:
        for fault in chosen[:: options.every]:
            one = mend(fault, options.seconds, str(warm.python))
            told.append(one)
            report.say("{came_to:8} {seconds:6.1f} s  {tried:5} {model} {id}: {edit}".format(**one))
            if options.json:
                options.json.write_text(json.dumps(told, indent=1), encoding="utf-8")
    counts = Counter(one["came_to"] for one in told)
    report.say(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 0


def mend(fault: Fault, seconds: int, python: str | None = None) -> dict[str, object]:
    """What the search comes to on one fault.

    python   what runs both sides, such as a warm interpreter (faults/warm)
    """
    file, began = ROOT / fault.file, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mends-") as work:
        pair = Path(work) / file.parent.name
        shutil.copytree(file.parent, pair, ignore=shutil.ignore_patterns("log", "__pycache__"))
        change(pair / file.name, fault.old, fault.new)
        base = Path(work) / "mend"
        base.mkdir()
        asked = Parser("", "mends").take("preset", "dtype", "autocast")
        options = CheckOptions.of(asked.parse_known_args(fault.arguments)[0])  # not its --case
        options = replace(options, torch_python=python, paddle_python=python)
        search = Search(load_pair(str(pair)), options, base, seconds, lambda text: None)
        told, diff = "", ""
        try:
            search.run()
        except UserError as error:
            told = str(error)[:200]
        came_to = NONE if search.red else GREEN
        if search.green and search.red:
            diff, now = search.diff(), search.written[pair / file.name].decode()
            same = _tree(now) == _tree(file.read_text(encoding="utf-8"))
            came_to = UNDONE if same else AS_GOOD if search.proven else DOUBTFUL
    edits = "; ".join(f"{one.old!r} -> {one.new!r}" for one in search.mended)[:300]
    return {
        "id": fault.id,
        "model": fault.model,
        "step": fault.step,
        "came_to": came_to,
        "kind": ", ".join(one.kind for one in search.mended),
        "edit": told or edits or search.told,
        "tried": search.tried,
        "seconds": round(time.monotonic() - began, 1),
        "diff": diff,
    }


def _tree(source: str) -> str:
    """A source but for how it is written: of a dtype's two names one, and no default given."""
    tree = ast.parse(re.sub(r"paddle\.((b?float|int)\d+)\b", r'"\1"', source))
    return ast.dump(_Defaults().visit(tree))


class _Defaults(ast.NodeTransformer):
    """Calls of Paddle's in one order, without the keywords that say what is said without them."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if re.fullmatch(r"(nn|F|paddle)(\.\w+)+", called):
            known, given = _defaults(called), node.keywords
            node.keywords = [
                one
                for one in sorted(given, key=lambda one: one.arg or "")
                if one.arg not in known or ast.unparse(one.value) != repr(known[one.arg])
            ]
        return node


@cache
def _defaults(called: str) -> dict[str, object]:
    """A function's or layer's defaults, by their names."""
    import paddle  # only where something was mended

    holder = {"nn": paddle.nn, "F": paddle.nn.functional, "paddle": paddle}
    first, *names = called.split(".")
    with suppress(AttributeError, ValueError):  # a name that Paddle has not, or says nothing of
        parameters = inspect.signature(reduce(getattr, names, holder[first])).parameters
        return {name: one.default for name, one in parameters.items()}
    return {}


if __name__ == "__main__":
    sys.exit(main())
