"""List which values have the same bits in float32, and name the first operator that has not.

    twincheck exact DIR

Both sides compute in float32, each on one thread, Paddle with its kernels that are made to be as
torch's are (FLAGS_use_accuracy_compatible_kernel) where it has them.  First as they are: which
values of steps 1 and 4 have the same bits.  Then Paddle once more, each operator fed with torch's
bits: which operators differ by themselves, in how many calls, and by how many ulps: units in the
last place of a result's largest value.

It leaves exact.json in DIR/log/exact/MODEL: schema 2; model; pair; preset; steps {N: {same,
differing, first}}; operators [{operator, calls, differed, gradients, gradients_differed, largest,
ulps, untaken}]; first {operator, gradient (bool), module, place, ulps}.

Exit status: 0 all are the same bits, 1 some are not, 2 nothing could be compared.
"""

import os
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check.result import shown
from twincheck.common.check.steps import Step
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal as report
from twincheck.common.system.door import to_type
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.words import printable
from twincheck.extras.bits import Kind
from twincheck.extras.bits.operators import ALL
from twincheck.extras.bits.search import Bits, compare_bits, differing, tally_of
from twincheck.extras.shared.sides import answered, asked, folder_of, only_pair
from twincheck.step1_forward.step import STEP as FORWARD
from twincheck.step4_backward.step import STEP as BACKWARD

SCHEMA = 2
FILE = "exact.json"
FLAG = "FLAGS_use_accuracy_compatible_kernel"
_COUNTS = ("calls", "differed", "gradients", "gradients_differed")


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "exact")
    parser.take("model", "out", "preset", "case", "mode", "seed", "weights")
    given = parser.take("json", "torch-python", "paddle-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _exact(given))


def _exact(given: Namespace) -> int:
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODEL_MISSING(command=to_type("exact", "DIR")))
    base = folder_of(options, "exact")
    with one_thread(), report.progress() as on_progress:
        with asked(pair, options, base, keep="all") as one:
            found = {
                step.number: of_step(step, one, on_progress)
                for step in (FORWARD, BACKWARD)
                if not step.why_not(pair)
            }
    result = {"schema": SCHEMA, "model": pair.name, "pair": str(pair.folder)}
    result |= {"preset": one.run.preset, **as_json(found)}
    place = base / pair.name / FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, result)
    if given.json:
        write_json(given.json, result)
    show(result)
    for note in one.notes:
        report.say(note)
    report.say(Kind.WRITTEN(path=shown(place)))
    return int(any(bits.off or differing(tally) for bits, tally in found.values()))


@contextmanager
def one_thread() -> Iterator[None]:
    """While it lasts, processes that start compute on one thread, with Paddle's flag."""
    values = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", FLAG: "1"}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


Found = tuple[Bits, dict[str, dict]]  # of a step: its values; operator -> its tally


def of_step(step: Step, one, on_progress: Callable[[str], None]) -> Found:
    """Run a step's sides as they are, then Paddle with torch's operators in its own's place."""
    plain, fed = (one.work / f"{step.name}_{name}" for name in ("plain", "fed"))
    fed.mkdir()

    def ask(side: str, folder: Path, **how: object) -> None:
        def told(text: str) -> None:
            on_progress(Kind.NOW_SIDE(step=step.number, side=side, what=str(text)))

        with WorkerProcess(one.pythons[side], step.module(side), told, one.run.device) as process:
            run = replace(one.run, states=None, **how)
            answered(process, run, folder / f"request_{side}.json")

    ask("torch", plain)
    ask("paddle", plain, only_float32=True)
    ResultFolder(plain).take_over(fed)
    ask("paddle", fed, only_float32=True, transplant=ALL)
    return compare_bits(plain, plain, step.judged), tally_of(fed, step.judged)


# ---- results ------------------------------------------------------------------------------------


def as_json(found: Mapping[int, Found]) -> dict[str, object]:
    """steps, operators and first: see the module's docstring."""
    steps = {
        str(number): {
            "same": len(bits.same),
            "differing": len(bits.off),
            "first": next(iter(bits.off), None),
        }
        for number, (bits, _) in found.items()
    }
    merged: dict[str, dict] = {}
    for _, tallies in found.values():
        for name, of in tallies.items():
            row = merged.setdefault(name, dict.fromkeys(_COUNTS, 0) | {"largest": 0.0, "ulps": 0.0})
            row |= {count: row[count] + of[count] for count in _COUNTS}
            row |= {measure: max(row[measure], of[measure]) for measure in ("largest", "ulps")}
            row["untaken"] = dict(Counter(row.get("untaken", {})) + Counter(of["untaken"]))
    rows = [{"operator": name, **row} for name, row in merged.items()]
    first = None
    for _, tallies in found.values():
        names = differing(tallies)
        if names:
            name = min(names, key=lambda name: tallies[name]["order"])
            one = tallies[name]
            first = {"operator": name, "gradient": not one["differed"], "module": one["where"]}
            first |= {"place": one["place"], "ulps": one["ulps"]}
            break
    return {"steps": steps, "operators": sorted(rows, key=lambda r: -r["largest"]), "first": first}


def show(result: Mapping) -> None:
    """The values of each step, the operators in a table, and the first that differs."""
    for number, of in result["steps"].items():
        counts = {"same": of["same"], "total": of["same"] + of["differing"]}
        first = Kind.FIRST_VALUE(key=of["first"]) if of["first"] else ""
        report.say(Kind.SAME_BITS(model=result["model"], step=number, **counts, first=first))
    table = Table(box=None, pad_edge=False)
    table.add_column(Kind.COLUMN_OPERATOR(), overflow="fold")
    counted = Kind.COLUMN_CALLS, Kind.COLUMN_DIFFER, Kind.COLUMN_GRADIENTS, Kind.COLUMN_DIFFER
    for heading in (*counted, Kind.COLUMN_LARGEST, Kind.COLUMN_ULPS):
        table.add_column(heading(), justify="right")
    for row in result["operators"]:
        measures = f"{row['largest']:.1e}", f"{row['ulps']:,.1f}"
        cells = *(f"{row[count]:,}" for count in _COUNTS), *(measures if row["ulps"] else ())
        table.add_row(row["operator"], *cells)
    report.say(Kind.OPERATORS())
    report.show_table(table)
    for row in result["operators"]:
        for reason, calls in row["untaken"].items():
            of = {"operator": row["operator"], "count": calls, "why": printable(reason)}
            report.say(Kind.OPERATOR_UNTAKEN(**of))
    first = result["first"]
    if first is None:
        report.say(Kind.NO_OPERATOR())
        return
    what = first["operator"]
    said = {
        "what": Kind.GRADIENT_OF(operator=what) if first["gradient"] else what,
        "module": printable(first["module"]) or Kind.THE_MODEL(),
        "where": Kind.AT(place=shown(Path(first["place"]))) if first["place"] else "",
    }
    report.say(Kind.FIRST_OPERATOR(**said, ulps=first["ulps"]))
