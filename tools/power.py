"""Which mistakes in a training step 5 finds, by which row, with one seed and with five.

    python -m tools.power               plants them, one after another, and writes docs/results.md

Each is a fault of the catalogue, planted on the Paddle side of a copy of examples/text_classifier.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich")

import argparse
import tempfile
from collections.abc import Mapping, Sequence

from faults.catalogue import FAULTS
from faults.worker import Check, Worker, _Planted
from tools.readme import fill
from twincheck.common.system.checkout import ROOT
from twincheck.common.verdict.row import FAILING

PAGE = ROOT / "docs" / "results.md"
PLANTED = (
    "rate-of-training-tenth",
    "no-decay-in-training",
    "warm-up-one-longer",
    "dropout-in-training",
    "not-shuffled-in-training",
    "training-drops-last",
    "momentum-in-training",
    "clipped-by-value",
    "accumulation-summed",
    "eval-mode-kept",
)
SEEDS = (1, 5)
# What rows of the whole training are about, by how their keys begin.
WHOLE = {
    "order": "train/order",
    "learning rates": "train/lr",
    "drift": "train/drift",
    "end": "train/final",
    "seeds": "seeds/",
}


def main() -> int:
    """See the module's docstring; returns the exit status: 0 where each was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.parse_args()
    planted = {fault.id: fault for fault in FAULTS if fault.id in PLANTED}
    lines, missed = [], []
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(Path(folder), sys.executable)
        try:
            for name in PLANTED:
                fault, found = planted[name], {}
                for seeds in SEEDS:
                    check = Check(5, fault.model, ("--seeds", str(seeds)) if seeds > 1 else ())
                    if worker.control(check)["exit_code"]:
                        raise RuntimeError(f"a correct training is red: {worker.control(check)}")
                    with _Planted(worker.checkout, fault):
                        found[seeds] = worker.run(check)[1]
                missed += [name] if any(told["exit_code"] != 1 for told in found.values()) else []
                lines.append(line(fault.what, found))
                print(lines[-1], flush=True)
        finally:
            worker.close()
    PAGE.write_text(fill(PAGE.read_text(), {"power": table(lines)}))
    print(f"written: {PAGE.relative_to(ROOT)}; missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


def line(what: str, found: Mapping[int, Mapping]) -> str:
    """A row of the table: the mistake, the first row that is off, and what of the rest is."""
    first = [f"`{told['first_diverged'] or '–'}`" for told in found.values()]
    rest = [", ".join(whole(told["rows"])) or "none" for told in found.values()]
    return f"| {what} | {' / '.join(dict.fromkeys(first))} | {' | '.join(rest)} |"


def whole(rows: Sequence[Mapping]) -> list[str]:
    """Which rows of the whole training are off, leaving out the first steps."""
    off = [row["key"] for row in rows if row["verdict"] in FAILING]
    return [name for name, start in WHOLE.items() if any(start in key for key in off)]


def table(lines: Sequence[str]) -> str:
    """The table as Markdown."""
    seeds = [f"the whole training alone, {n} seed{'s' if n > 1 else ''}" for n in SEEDS]
    head = f"| planted on the Paddle side | first row that is off | {' | '.join(seeds)} |"
    return "\n".join([head, "|---|---|---|---|", *lines])


if __name__ == "__main__":
    sys.exit(main())
