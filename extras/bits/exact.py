"""Which values are the same bits in float32, and how an operator's bits come to differ.

    twincheck exact DIR                                  operators, values, and 10 training steps
    twincheck exact --torch-md5 FILE --paddle-md5 FILE   MD5s that two trainings have logged

Both sides compute in float32, each on one thread, Paddle with its kernels that are made to be as
torch's are (FLAGS_use_accuracy_compatible_kernel) where it has them.  First as they are: which
values of steps 1 and 4 have the same bits.  Then Paddle once more, each operator fed with torch's
bits: which operators differ by themselves.  Of each that does, the first call is computed again in
the orders in which libraries add: "another order" is said where one order gives all of torch's
bits and another one all of Paddle's; else "another kernel", with how many elements either rounds
as float64 does.  And the MD5 of every loss and gradient of the first training steps, in the lines
that PaddleFleet's alignment logs have.

It leaves in DIR/log/exact/MODEL: torch.md5, paddle.md5 and exact.json: schema 1; model; pair;
preset; steps {N: {same, differing, first, accumulated}}; operators [{operator, calls, differed,
gradients, gradients_differed, largest, untaken, kind, kind_of_gradients, how}]; first {operator,
entry, number, module, place, kind, how}; training {steps, equal, differing, first}.

Exit status: 0 all are the same bits, 1 some are not, 2 nothing could be compared.
"""

import os
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from twincheck.common.check.inputs import Inputs
from twincheck.common.check.options import CheckOptions, Parser, positive
from twincheck.common.check.result import shown
from twincheck.common.check.steps import Step
from twincheck.common.logs.key import Key
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal as report
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.program import guarded
from twincheck.common.system.words import printable
from twincheck.extras.bits import Kind, md5
from twincheck.extras.bits.operators import ALL, SAMPLES, TABLE
from twincheck.extras.bits.orders import find, gradients_of, grouped, sampled, ways_of
from twincheck.extras.bits.search import compare_bits, orders_of_parts
from twincheck.extras.bits.steps import STEM
from twincheck.extras.shared.sides import answered, asked, folder_of, only_pair
from twincheck.step1_forward.step import STEP as FORWARD
from twincheck.step4_backward.step import STEP as BACKWARD
from twincheck.step5_train.step import STEP as TRAIN

SCHEMA = 1
FILE = "exact.json"
FLAG = "FLAGS_use_accuracy_compatible_kernel"
STEPS = 10  # of the training
EQUAL, ORDER, KERNEL = Kind.EQUAL(), Kind.ANOTHER_ORDER(), Kind.ANOTHER_KERNEL()
UNTAKEN = Kind.NOT_COMPARED()
GRADIENT = "gradients_differed"


@dataclass(frozen=True)
class Sample:
    """The first call of an operator whose bits differ though what it was fed is the same."""

    operator: str
    entry: str  # of the tally: differed, or gradients_differed
    number: int  # among all calls
    module: str
    place: str  # file:line of the model
    kind: str
    how: str


@dataclass
class Found:
    """What one step came to: its values, its operators, and their first calls that differ."""

    same: int
    off: dict[str, float]  # key -> mean difference, in the log's order
    tally: dict[str, dict] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    accumulated: str = ""  # of gradients of several consumers, how the first one that differs


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "exact")
    parser.take("model", "out", "preset", "case", "mode", "seed", "weights", "data", "tokenizer")
    said = Kind.HELP_STEPS(steps=STEPS)
    parser.take_other("steps", type=positive, default=STEPS, help=said)
    for side in SIDES:
        said = Kind.HELP_MD5(side=side)
        parser.add_argument(f"--{side}-md5", type=Path, metavar="FILE", help=said)
    parser.take("json", "torch-python", "paddle-python", "debug")
    given = parser.parse_args(arguments)
    run = _logged if given.torch_md5 or given.paddle_md5 else _exact
    return guarded(given.debug, lambda: run(given))


def _logged(given: Namespace) -> int:
    """Compare what two trainings logged."""
    files = {side: getattr(given, f"{side}_md5") for side in SIDES}
    if not all(files.values()):
        raise UserError(Kind.MD5_OF_ONE_SIDE())
    compared = md5.compare(*(md5.read(files[side]) for side in SIDES))
    _say_training(Kind.TRAININGS(), compared)
    return int(compared.first is not None or compared.alone > 0)


def _exact(given: Namespace) -> int:
    steps, given.steps = given.steps, None
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
            trained = _trained(one, options, steps, on_progress)
        notes = list(one.notes)
    place = base / pair.name
    place.mkdir(parents=True, exist_ok=True)
    result = as_json(pair, one.run.preset, found)
    if trained is not None:
        marks, compared = trained
        for side in SIDES:
            (place / f"{side}.md5").write_text(marks[side], encoding="utf-8")
        result["training"] = {"steps": steps, **_compared(compared)}
    write_json(place / FILE, result)
    if given.json:
        write_json(given.json, result)
    show(result, found)
    if trained is not None:
        _say_training(Kind.TRAINING_STEPS(count=steps), trained[1])
    for note in notes:
        report.say(note)
    report.say(Kind.WRITTEN(path=shown(place / FILE)))
    differs = any(one.off or _differing(one.tally) for one in found.values())
    return int(differs or trained is not None and trained[1].first is not None)


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


# ---- runs ---------------------------------------------------------------------------------------


def of_step(step: Step, one, on_progress: Callable[[str], None]) -> Found:
    """Run a step's sides as they are, then Paddle with torch's operators in its own's place."""
    plain, fed = (one.work / f"{step.name}_{name}" for name in ("plain", "fed"))
    for side in SIDES:
        run = replace(one.run, only_float32=side == "paddle", states=None)
        _ask(step, side, run, plain, one.pythons[side], on_progress)
    fed.mkdir()
    ResultFolder(plain).take_over(fed)
    samples = one.work / f"{step.name}_samples"
    samples.mkdir()
    os.environ[SAMPLES] = str(samples)
    try:
        run = replace(one.run, only_float32=True, transplant=ALL, states=None)
        _ask(step, "paddle", run, fed, one.pythons["paddle"], on_progress)
    finally:
        del os.environ[SAMPLES]
    bits = compare_bits(plain, plain, step.judged)
    found = Found(len(bits.same), bits.off)
    sidecar = sidecar_of(ResultFolder(fed).log(step.judged[0], "paddle"))
    found.tally = {n: counts for n, counts in sidecar.operators.items() if n in TABLE}
    on_progress(Kind.NOW_ORDERS(step=step.number))
    found.samples = [sample_of(path) for path in sorted(samples.glob("*.json"))]
    left = compare_bits(fed, plain, step.judged).off
    for key in left:
        orders = None if Key.parse(key).is_step else orders_of_parts(fed, step.judged[0], key)
        if orders:
            found.accumulated = Kind.ADDED(key=key, torch=orders[0], paddle=orders[1])
            break
    return found


def _ask(step: Step, side: str, run, folder: Path, python: str, on_progress) -> None:
    def told(text: str) -> None:
        on_progress(Kind.NOW_SIDE(step=step.number, side=side, what=str(text)))

    with WorkerProcess(python, step.module(side), told, run.device) as process:
        answered(process, run, folder / f"request_{side}.json")


def _trained(one, options: CheckOptions, steps: int, on_progress):
    """(side -> its lines, what they came to) of the first training steps; None without data."""
    if TRAIN.why_not(one.pair):
        return None
    inputs = Inputs(TRAIN, options, one.pythons, one.work, on_progress, None)
    if not inputs.make_data(one.pair):
        raise UserError(inputs.errors[one.pair.name].sentence)
    own = replace(one, run=replace(one.run, data=str(inputs.data), steps=steps))
    with own.sides("twincheck.extras.bits.steps", STEM) as sides:
        sides.folder.mkdir(parents=True, exist_ok=True)
        on_progress(Kind.TRAINING_STEPS(count=steps))
        for dtype in ("float64", "float32"):  # the first makes what all start from
            sides.answer(dtype)
        files = {side: sides.folder / f"{STEM}_{side}.md5" for side in SIDES}
        marks = {side: path.read_text(encoding="utf-8") for side, path in files.items()}
        return marks, md5.compare(*(md5.read(files[side]) for side in SIDES))


# ---- how an operator differs ---------------------------------------------------------------------


def sample_of(path: Path) -> Sample:
    """What the first differing call of an operator shows; `path` is its .json."""
    told, arrays = load_json(path), read_npz(path.with_suffix(".npz"))
    groups = {name: _numbered(arrays, name) for name in ("in", "given", "torch", "paddle", "exact")}
    kind, how, is_gradient = KERNEL, "", told["entry"] == GRADIENT
    size = 1 if is_gradient else grouped(told["operator"], told["arguments"])
    for name, ways_to, i in _results(told, groups):
        if ways_to is None or any(i not in groups[side] for side in SIDES):
            continue
        torch, paddle = (groups[side][i].ravel() for side in SIDES)
        if np.array_equal(torch, paddle):
            continue
        rows = sampled(torch, paddle, size)
        ways = find(ways_to(rows), [torch[rows], paddle[rows]])
        said = [
            w.said if w.share == 1.0 else Kind.NEAREST(order=w.said, share=w.share) for w in ways
        ]
        how = Kind.ORDERS(**dict(zip(SIDES, said, strict=True)))
        if is_gradient:
            how = Kind.OF_GRADIENT(name=name, how=how)
        if all(way.share == 1.0 for way in ways):
            kind = ORDER
            break
    if kind == KERNEL:
        rounded = Kind.GRADIENTS_ROUNDED if is_gradient else Kind.ROUNDED
        shares = {side: _rounded_share(groups[side], groups["exact"]) for side in SIDES}
        how = Kind.KERNELS(facts=[rounded(**shares), how])
    names = {n: told[n] for n in ("operator", "entry", "number", "module", "place")}
    return Sample(**names, kind=kind, how=how)


def _rounded_share(values: Mapping[int, np.ndarray], exact: Mapping[int, np.ndarray]) -> float:
    """The share of the elements that are those of a float64 run, rounded once."""
    pairs = [(values[i].ravel(), exact[i].ravel().astype(np.float32)) for i in values if i in exact]
    return float(np.mean(np.concatenate([a == b for a, b in pairs])))


def _numbered(arrays: Mapping[str, np.ndarray], group: str) -> dict[int, np.ndarray]:
    start = f"{group}_"
    return {int(k.removeprefix(start)): arrays[k] for k in arrays if k.startswith(start)}


def _results(told: Mapping, groups: Mapping) -> list[tuple[str, Callable | None, int]]:
    """(name of what it is a gradient of, rows -> ways to it, number) of each result of a call."""
    named, inputs = told["arguments"], groups["in"]
    if told["entry"] != GRADIENT:
        return [("", ways_of(told["operator"], named, inputs), 0)]
    ways = gradients_of(told["operator"], named, inputs, groups["given"][0])
    names = {at["tensor"]: name for name, at in named.items() if isinstance(at, Mapping)}
    wanted = [names.get(number, "") for number in told["wanted"]]
    return [(name, ways.get(name), i) for i, name in enumerate(wanted)]


# ---- results ------------------------------------------------------------------------------------


def _differing(tally: Mapping[str, Mapping]) -> list[str]:
    return [name for name, of in tally.items() if of["differed"] or of[GRADIENT]]


def rows(found: Mapping[int, Found]) -> list[dict[str, object]]:
    """A row for each operator, over all steps: its calls, and how it differs."""
    merged: dict[str, dict] = {}
    for one in found.values():
        for name, of in one.tally.items():
            row = merged.setdefault(
                name, {**dict.fromkeys(_COUNTS, 0), "largest": 0.0, "untaken": {}}
            )
            row |= {count: row[count] + of[count] for count in _COUNTS}
            row["largest"] = max(row["largest"], of["largest"])
            row["untaken"] = dict(Counter(row["untaken"]) + Counter(of["untaken"]))
    samples = [sample for one in found.values() for sample in one.samples]
    listed = []
    for name, row in merged.items():
        kinds, how = {}, []
        for entry in ("differed", GRADIENT):
            own = [s for s in samples if (s.operator, s.entry) == (name, entry)][:1]
            kinds[entry] = own[0].kind if own else EQUAL if not row[entry] else KERNEL
            how += [sample.how for sample in own]
        kinds["differed"] = kinds["differed"] if row["calls"] else UNTAKEN
        of_gradients = kinds[GRADIENT] if row["gradients"] else ""
        own = {"kind": kinds["differed"], "kind_of_gradients": of_gradients, "how": how}
        listed.append({"operator": name, **row, **own})
    rank = [KERNEL, ORDER, UNTAKEN, EQUAL, ""]
    return sorted(
        listed,
        key=lambda row: (
            min(rank.index(row["kind"]), rank.index(row["kind_of_gradients"])),
            -row["largest"],
        ),
    )


_COUNTS = ("calls", "differed", "gradients", GRADIENT)


def as_json(pair: Pair, preset: str, found: Mapping[int, Found]) -> dict[str, object]:
    """exact.json without the training: see the module's docstring."""
    first = next(
        (min(f.samples, key=lambda s: s.number) for f in found.values() if f.samples), None
    )
    steps = {
        str(number): {
            "same": one.same,
            "differing": len(one.off),
            "first": next(iter(one.off), None),
            "accumulated": one.accumulated or None,
        }
        for number, one in found.items()
    }
    result = {"schema": SCHEMA, "model": pair.name, "pair": str(pair.folder), "preset": preset}
    result |= {"steps": steps, "operators": rows(found)}
    return result | {"first": asdict(first) if first else None}


def _compared(compared: md5.Compared) -> dict[str, object]:
    first = compared.first and {
        "step": compared.first[0].step,
        "tensor": compared.first[0].name,
        **{side: mark.md5 for side, mark in zip(SIDES, compared.first, strict=True)},
    }
    return {"equal": compared.equal, "differing": compared.differing, "first": first or None}


def show(result: Mapping, found: Mapping[int, Found]) -> None:
    """The values of each step, the operators in a table, and the first that differs."""
    for number, of in result["steps"].items():
        counts = {"same": of["same"], "total": of["same"] + of["differing"]}
        first = Kind.FIRST_VALUE(key=of["first"]) if of["first"] else ""
        report.say(Kind.SAME_BITS(model=result["model"], step=number, **counts, first=first))
        if of["accumulated"]:
            report.say(Kind.ACCUMULATED(how=of["accumulated"]))
    table = Table(box=None, pad_edge=False)
    table.add_column(Kind.COLUMN_OPERATOR(), overflow="fold")
    for heading in (Kind.COLUMN_CALLS(), Kind.COLUMN_GRADIENTS()):
        table.add_column(heading, justify="right")
        table.add_column(Kind.COLUMN_DIFFER(), justify="right")
        table.add_column(Kind.COLUMN_BITS())
    table.add_column(Kind.COLUMN_LARGEST(), justify="right")
    for row in result["operators"]:
        calls, off, gradients, gradients_off = (f"{row[count]:,}" for count in _COUNTS)
        largest = f"{row['largest']:.1e}" if row["largest"] else ""
        cells = calls, off, row["kind"], gradients, gradients_off, row["kind_of_gradients"]
        table.add_row(row["operator"], *cells, largest)
    report.say(Kind.OPERATORS())
    report.show_table(table)
    for row in result["operators"]:
        name = row["operator"]
        for how in row["how"]:
            report.say(Kind.OPERATOR_HOW(operator=name, how=how))
        for reason, calls in row["untaken"].items():
            report.say(Kind.OPERATOR_UNTAKEN(operator=name, count=calls, why=printable(reason)))
    first = result["first"]
    if first is None:
        report.say(Kind.NO_OPERATOR())
        return
    what = first["operator"]
    said = {
        "what": Kind.GRADIENT_OF(operator=what) if first["entry"] == GRADIENT else what,
        "module": first["module"] or Kind.THE_MODEL(),
        "where": Kind.AT(place=shown(Path(first["place"]))) if first["place"] else "",
    }
    report.say(Kind.FIRST_OPERATOR(**said, how=[first["kind"], first["how"]]))


def _say_training(what: str, compared: md5.Compared) -> None:
    counts = {"what": what, "total": compared.equal + compared.differing}
    if compared.first is None:
        report.say(Kind.TRAINED_ALIKE(**counts))
    else:
        of = dict(zip(SIDES, compared.first, strict=True))
        values = {side: mark.value for side, mark in of.items()}
        said = {"name": of["torch"].name, "step": of["torch"].step, "equal": compared.equal}
        said["values"] = Kind.VALUES(**values) if of["torch"].value else ""
        marks = {side: mark.md5 for side, mark in of.items()}
        report.say(Kind.TRAINED_OTHERWISE(**counts, **said, **marks))
    if compared.alone:
        report.say(Kind.IN_ONE_LOG(count=compared.alone))
