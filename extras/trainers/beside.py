"""Step 5's --torch-losses and --paddle-losses: trainings that somebody else's trainer logged.

The check's process.  A side without a file is the training that step 5 ran here; where that is the
same training, its self-twins say how far rounding alone drives two curves apart.
extras/trainers/trainers.py judges and says what is written; why first losses differ, `twincheck
why` finds by training.
"""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from twincheck.common.check.options import CheckOptions
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
from twincheck.extras.shared.sides import only_pair
from twincheck.extras.trainers import Kind, trainers
from twincheck.extras.trainers.loss_logs import Curve, read_losses, together, told, trained_here
from twincheck.extras.trainers.trainers import Envelope, Judged, Precision
from twincheck.step5_train.envelope import runs_of


def to_train(options: CheckOptions) -> str:
    """What to type to have step 5 train the model that a command is about, in the same place."""
    return whole("step5", [each for each in options.typed if each[0] in ("model", "out")])


def _to_explain(options: CheckOptions) -> str:
    """What to type to have the cause of other losses looked for."""
    named = "model", "out", *(f"{side}-losses" for side in SIDES)
    return whole("why", [each for each in options.typed if each[0] in named])


def beside(step: Step, given: Namespace) -> int:
    """Judge logged trainings of one model, as the command line says; returns the exit status."""
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODEL_MISSING())
    base = base_folder(step, options)
    files = {"torch": given.torch_losses, "paddle": given.paddle_losses}
    curves = {side: read_losses(path, given.losses_name) for side, path in files.items() if path}
    ran = here(base / pair.name, pair)
    for side in SIDES:
        if side not in curves:
            if ran is None:
                said = {"side": side, "command": to_train(options)}
                raise UserError(Kind.SIDES_TRAINING_MISSING(**said))
            curves[side] = ran[0][side]
    curves = {side: curves[side] for side in SIDES}
    precision = Precision(curves["torch"], curves["paddle"], given.losses_dtype)
    found = together(curves["torch"], curves["paddle"], precision.alike)
    envelope, notes = _envelope(ran, curves, precision)
    judged = trainers.judge(found, precision, envelope)
    of_curves = [
        Kind.SIDES_NOTE(side=s, note=n) for s, curve in curves.items() for n in curve.notes
    ]
    judged.notes = [*of_curves, *judged.notes, *notes]
    if judged.rows[0].key == "train/first" and judged.rows[0].verdict == "DIVERGED":
        judged.cause = trainers.cause_of(found, precision, _to_explain(options))
    result = {
        "schema": trainers.SCHEMA,
        "model": pair.name,
        "pair": str(pair.folder),
        "preset": options.run.preset,
        "sources": {side: model_sources(pair, side) for side in SIDES if ran is not None},
        **trainers.as_json(found, curves, judged),
    }
    place = base / pair.name / TRAINERS_FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, result)
    show(result, curves, judged, place)
    if given.json:
        write_json(given.json, result)
    return result["exit_code"]


# ---- what ran here ------------------------------------------------------------------------------


def here(folder: Path, pair: Pair) -> tuple[dict[str, Curve], Envelope | None] | None:
    """Both sides' trainings of step 5's result, and the self-twins; None for these if none ran.

    None where there are no trainings, or none of the pair as it is now.
    """
    files = ResultFolder(folder)
    paths = {side: files.log("train_full", side) for side in SIDES}
    if not all(path.is_file() for path in paths.values()):
        return None
    cars = {side: sidecar_of(paths[side]) for side in SIDES}
    if any(changed_sources(cars[side].sources, pair, side) for side in SIDES):
        return None
    curves = {}
    for side in SIDES:
        with read_log(paths[side]) as log:
            losses = log["curve/loss"]
        curves[side] = trained_here(losses)
    if not all(files.log("train_self", side).is_file() for side in SIDES):
        return curves, None
    runs = tuple([each["curve/loss"] for each in runs_of(folder, side)] for side in SIDES)
    per_epoch = cars["torch"].steps_per_epoch.get("main") or curves["torch"].losses.size
    return curves, Envelope(runs, folder, per_epoch)


def _envelope(ran, curves, precision: Precision):
    """(the self-twins' envelope, notes); None where step 5 ran another training, or none."""
    if ran is None:
        return None, [Kind.BY_FIRST_ALONE(how=Kind.TRAIN_HERE())]
    own, envelope = ran
    if envelope is None:
        return None, [Kind.BY_FIRST_WITHOUT_TWINS()]
    if curves["torch"].path == "":
        return envelope, []
    ours = Precision(curves["torch"], own["torch"], precision.dtype)
    try:
        found = together(curves["torch"], own["torch"], ours.alike)
        same = trainers.judge(found, ours, envelope)
    except UserError:
        same = None
    if same is None or same.by != "self-twin" or any(r.verdict == "DIVERGED" for r in same.rows):
        return None, [Kind.BY_FIRST_OF_ANOTHER(how=Kind.TRAIN_HERE())]
    return envelope, []


# ---- what people see ----------------------------------------------------------------------------


def show(result: dict, curves: Mapping[str, Curve], judged: Judged, place: Path) -> None:
    """What was read, the rows, the cause, and what two curves cannot show."""
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
    for row in judged.rows:
        numbers = (report.number(value) for value in (row.gap, row.allowed))
        table.add_row(row.key, row.verdict, *numbers, report.visible(row.note))
    report.show_table(table)
    if judged.cause:
        report.say(Kind.CAUSE(what=judged.cause["kind"], said=judged.cause["said"]))
    for note in [*judged.notes, *judged.cannot_show]:
        report.say(note)
    report.say(Kind.WRITTEN(path=shown(place)))
