"""What a check says of a wrong port: two LayerNorms with a wrong epsilon, planted one at a time.

    python -m tools.red    plants each in a copy of this checkout and runs step 1 on it

The first is a mistake that the guide's rule passes: its red block, as step 1 prints it, is shown.
The rows of both are left in log/red.json, and `python -m tools.readme` draws pics/verdicts.png from
them.  Exit status 0 where both were found where they are.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from faults.catalogue import FAULTS
from faults.checkout import Checkout
from faults.fault import Fault
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.program import Parser, guarded

ROWS = ROOT / "log" / "red.json"
SHOWN = "layernorm-epsilon-small"
PLANTED = (SHOWN, "layernorm-default-epsilon")  # ids in the catalogue
CASE = "main"  # of the block: each further case would name the same line again
REPORT = "rows.json"  # as a user would call it; without a path, which differs from run to run


def behind_table(printed: str) -> list[str]:
    """The lines that a check has printed behind its table; all of them where it printed none."""
    lines = [line.rstrip() for line in printed.splitlines()]
    last = max((i for i, line in enumerate(lines) if line.startswith("└")), default=-1)
    return lines[last + 1 :]


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    options = parser.parse_args(arguments)
    return guarded(options.debug, _main)


def _main() -> int:
    found = {}
    os.environ["LANGUAGE"] = "en"  # as the pages are that show it
    with tempfile.TemporaryDirectory(prefix="red-") as folder:
        copy = Checkout(Path(folder))
        for fault in (named(name) for name in PLANTED):
            _, report = planted(copy, fault)
            found[fault.id] = {"what": fault.what, "rows": report["rows"]}
            first = report["first_diverged"]
            if first != fault.origin:
                raise UserError(f"{fault.id}: found at {first}, not at {fault.origin}")
        text, _ = planted(copy, named(SHOWN), "--case", CASE)
    print(text)
    write_text(ROWS, json.dumps(found))
    print(f"\nleft in {ROWS}")
    return 0


def named(name: str) -> Fault:
    """A fault of the catalogue."""
    return next(fault for fault in FAULTS if fault.id == name)


def planted(copy: Checkout, fault: Fault, *options: str) -> tuple[str, dict]:
    """What step 1 prints behind its table with a fault planted in a copy, and its report.

    The copy is as before afterwards.  Raises UserError where the check did not turn red.
    """
    copy.elsewhere = copy.root  # as people type it: no temporary folder in what is shown
    path = copy.path(fault.file)
    before = path.read_text()
    try:
        copy.replace(fault.file, fault.old, fault.new)
        done = copy.check(1, "--model", fault.model, *options, "--json", REPORT)
    finally:
        path.write_text(before)
    if done.returncode != 1:
        raise UserError(f"{fault.id} was not found: {done.stderr.strip() or done.stdout[-500:]}")
    told = "\n".join(behind_table(done.stdout)).strip("\n")
    return told, json.loads((copy.elsewhere / REPORT).read_text())


if __name__ == "__main__":
    sys.exit(main())
