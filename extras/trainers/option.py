"""Step 5's --torch-losses and --paddle-losses: trainings that somebody else's trainer logged.

With them nothing is trained.  A side without a file is the training that step 5 ran here;
trainers.py judges, and says what is written.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from twincheck.common.check.command_line import Added
from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check.result import shown
from twincheck.common.check.runner import base_folder
from twincheck.common.check.steps import Step
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import TRAINERS_FILE, ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.provenance import changed_sources, model_sources
from twincheck.common.report import terminal as report
from twincheck.common.report.commands import whole
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import write_json
from twincheck.common.verdict.row import Row
from twincheck.extras.shared.sides import only_pair
from twincheck.extras.trainers import Kind, trainers
from twincheck.extras.trainers.loss_logs import Curve, read_losses, together, told, trained_here
from twincheck.extras.trainers.trainers import Precision

# What logged losses go by; other options of this check mean nothing there.
OF_LOSSES = ("torch-losses", "paddle-losses", "losses-name", "losses-dtype")
WITH_LOSSES = (
    *(*OF_LOSSES, "model", "preset", "device", "seed", "weights", "out"),
    *("torch-python", "paddle-python", "json", "lang", "debug"),
)


def add(parser: Parser) -> None:
    """Give the check's parser the options."""
    group = parser.add_argument_group(Kind.OPTIONS())
    file = {"type": Path, "metavar": "FILE"}
    group.add_argument("--torch-losses", **file, help=Kind.HELP_TORCH_LOSSES())
    group.add_argument("--paddle-losses", **file, help=Kind.HELP_PADDLE_LOSSES())
    group.add_argument("--losses-name", metavar="NAME", help=Kind.HELP_LOSSES_NAME())
    dtypes = {"choices": tuple(trainers.ALLOWED), "default": "float32"}
    group.add_argument("--losses-dtype", **dtypes, help=Kind.HELP_LOSSES_DTYPE())


def run(step: Step, given: Namespace) -> int:
    """Judge the losses that these options name, instead of training; returns the exit status."""
    if given.torch_losses is None and given.paddle_losses is None:
        raise UserError(Kind.LOSSES_MISSING())
    idle = [f"--{name}" for name, _ in given.typed if name not in WITH_LOSSES]
    if idle:
        raise UserError(Kind.OPTIONS_IDLE(options=idle))
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODEL_MISSING())
    base = base_folder(step, options)
    files = {"torch": given.torch_losses, "paddle": given.paddle_losses}
    curves = {side: read_losses(path, given.losses_name) for side, path in files.items() if path}
    ran = _trained_here(base / pair.name, pair)
    same_model = [each for each in options.typed if each[0] in ("model", "out")]
    for side in SIDES:
        if side not in curves and ran is None:
            command = whole("step5", same_model)
            raise UserError(Kind.SIDES_TRAINING_MISSING(side=side, command=command))
    curves = {side: curves[side] if side in curves else ran[side] for side in SIDES}
    precision = Precision(curves["torch"], curves["paddle"], given.losses_dtype)
    found = together(curves["torch"], curves["paddle"], precision.alike)
    rows, notes = trainers.judge(found, precision)
    of_curves = [
        Kind.SIDES_NOTE(side=s, note=n) for s, curve in curves.items() for n in curve.notes
    ]
    notes = [*of_curves, *notes]
    if rows[0].verdict == "DIVERGED":
        notes.append(Kind.FIRST_LOSSES_APART(command=whole("step3", same_model)))
    result = {
        "schema": trainers.SCHEMA,
        "model": pair.name,
        "pair": str(pair.folder),
        "preset": options.run.preset,
        "sources": {side: model_sources(pair, side) for side in SIDES if ran is not None},
        **trainers.as_json(found, curves, rows, notes),
    }
    place = base / pair.name / TRAINERS_FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, result)
    _show(result, curves, rows, place)
    if given.json:
        write_json(given.json, result)
    return result["exit_code"]


def _trained_here(folder: Path, pair: Pair) -> dict[str, Curve] | None:
    """Return both sides' trainings of step 5's result; None where the pair has none as it is."""
    curves = {}
    for side in SIDES:
        path = ResultFolder(folder).log("train_full", side)
        if not path.is_file() or changed_sources(sidecar_of(path).sources, pair, side):
            return None
        with read_log(path) as log:
            curves[side] = trained_here(log["curve/loss"])
    return curves


def _show(result: dict, curves: Mapping[str, Curve], rows: Sequence[Row], place: Path) -> None:
    """Print what was read, the rows, the cause, and what two curves cannot show."""
    report.say(Kind.BESIDE(model=result["model"], verdict=result["verdict"]))
    for side, curve in curves.items():
        means = Kind.EACH_A_MEAN() if curve.means and curve.every != 1 else ""
        of = {"file": curve.path, "name": report.visible(curve.name), "format": curve.format}
        where = Kind.IN_FILE(**of) if curve.path else Kind.TRAINED_HERE()
        report.say(Kind.CURVE(side=side, where=where, losses=told(curve), means=means))
    table = Table(box=None, pad_edge=False)
    numbers = Kind.COLUMN_DIFFERENCE(), Kind.COLUMN_ALLOWED()
    for heading in (Kind.COLUMN_ROW(), Kind.COLUMN_VERDICT(), *numbers, Kind.COLUMN_NOTE()):
        table.add_column(heading, overflow="fold")
    for row in rows:
        numbers = (report.number(value) for value in (row.gap, row.allowed))
        table.add_row(row.key, row.verdict, *numbers, report.visible(row.note))
    report.show_table(table)
    for note in [*result["notes"], *result["cannot_show"]]:
        report.say(note)
    report.say(Kind.WRITTEN(path=shown(place)))


ADDED = Added(add, OF_LOSSES, run)
