"""Judge whole trainings: their course, their ends, and whether anything was learnt."""

import math
from contextlib import ExitStack
from itertools import count, takewhile
from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.case_hooks import CURVES, data_preset, training
from twincheck.common.pair.metrics import RELATIVE
from twincheck.common.pair.request import RunRequest
from twincheck.common.report.scores import scores_of
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.row import Row, claim
from twincheck.step4_backward.rates import Watch
from twincheck.step5_train.curves import draw_curves
from twincheck.step5_train.envelope import (
    Envelope,
    Spread,
    drift,
    first_noise,
    in_float64,
    is_compared,
    judged,
    measured,
    parts_of,
    runs_of,
    stored,
)
from twincheck.step5_train.equivalence import judge_seeds, one_seed
from twincheck.step5_train.training import stops_after

STEM, THRESHOLD = "train_align", 0.0015  # the guide's pair of logs, and its 0.15 %
LEARNT = 2.0  # times its own error: what the loss must fall by


def trained_alike(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """The whole trainings: drift of the loss, what they end with, whether anything was learnt."""
    files, settings = ResultFolder(folder), settings_of(folder, pair)
    patient = bool(settings["patience"])
    with ExitStack() as stack:
        logs = [stack.enter_context(read_log(files.log("train_full", side))) for side in SIDES]
        paths = [files.log("train_full", side, RunKind.FLOAT64) for side in SIDES]
        exact = [stack.enter_context(read_log(path)) for path in paths if path.is_file()]
        envelope, parts, notes = envelope_of(folder, pair)
        # Causes first: the first row that is off is where to look.
        rows = _course(*logs, patient)
        losses = [log["curve/loss"] for log in logs], [log["curve/loss"] for log in exact]
        drifts = drift(*losses[0], envelope, folder, parts, losses[1])
        rows += [*drifts, *_ends(folder, logs, exact, envelope)]
        stopped, early = _early_stops(*logs, settings)
        learnt = [_learnt(side, log) for side, log in zip(SIDES, logs, strict=True)]
        of_seeds = _seeds(folder, *logs, patient)
        rows += [*stopped, *learnt, *of_seeds]
        limits = [row.allowed for row in drifts]
        draw_curves(folder, pair.name, logs, [steps for _, steps in parts], limits)
    seeds = [row for row in of_seeds if row.size > 1 and row.key[:6] == "seeds/"]
    notes += [Kind.ROW_NOTED(key=row.key, reasons=list(row.reasons)) for row in seeds]
    return rows, [*_rate_too_high(folder), *notes, *early]


def envelope_of(folder: Path, pair) -> tuple[Envelope, list, list[str]]:
    """The envelope of the trainings in a folder, the parts that they are judged in, and notes.

    Measured where self-twins ran, else the stored one; raises UserError where there is neither.
    """
    files = ResultFolder(folder)
    losses = []
    for side in SIDES:
        with read_log(files.log("train_full", side)) as log:
            losses.append(log["curve/loss"].size)
            epochs = log["curve/order"].size
    told = sidecar_of(files.log("train_full", "torch"))
    per_epoch = told.steps_per_epoch.get("main") or math.ceil(losses[0] / epochs)
    path = folder / "request_torch_full.json"
    request = RunRequest.read(path) if path.is_file() else RunRequest()
    envelope, why = stored(folder, pair, request)
    twins = all(files.log("train_self", side).is_file() for side in SIDES)
    if not twins and envelope is None:
        told = {"path": str(files.path), "why": why or Kind.TWINS_MISSING()}
        raise UserError(Kind.ENVELOPE_MISSING(**told, again=Kind.RUN_AGAIN()))
    if twins:  # a run may stop early: what all have counts
        losses = [each["curve/loss"].size for side in SIDES for each in runs_of(folder, side)]
    parts = parts_of(min(losses), per_epoch)
    if twins:
        envelope = measured(folder, parts)
    return envelope, parts, [why] if why else []


def guide_scores(folder: Path) -> list:
    """Return both sides' final scores, as the guide's pair of logs has them."""
    return scores_of(folder, STEM, THRESHOLD)


def final_scores(log) -> dict[str, list[float]]:
    """Name -> final score of each seed, in the seeds' order."""
    seeds = takewhile(lambda seed: f"{seed}curve/loss" in log, map("seed_{}/".format, count(1)))
    starts = ["", *seeds]
    return {name: [float(log[start + name]) for start in starts] for name in _score_names(log)}


def _score_names(log) -> list[str]:
    """The scores that a log has a curve of."""
    names = [key.removeprefix("curve/") for key in log if key.startswith("curve/")]
    return [name for name in names if name not in CURVES]


def settings_of(folder: Path, pair) -> dict[str, object]:
    """Return how the preset of these logs is trained."""
    preset = preset_of(folder, pair)
    return training(pair, pair.config(preset), preset)


def preset_of(folder: Path, pair) -> str:
    told = sidecar_of(ResultFolder(folder).log("train_full", "torch"))
    return data_preset(pair, told.preset or "default")


def _seeds(folder: Path, torch_log, paddle_log, patient: bool) -> list[Row]:
    """Every seed's order and learning rates, then each score over the seeds."""
    scores = [final_scores(log) for log in (torch_log, paddle_log)]
    seeds = min(len(values) for side in scores for values in side.values())
    rows = []
    for seed in range(1, seeds):
        rows += _course(torch_log, paddle_log, patient, f"seed_{seed}/")
    if seeds > 1:
        names = [name for name in scores[0] if name not in RELATIVE]
        rows += [judge_seeds(name, scores[0][name], scores[1].get(name, [])) for name in names]
    else:
        rows += [
            one_seed(score.name, score.torch, score.paddle, score.limit)
            for score in guide_scores(folder)
            if not score.passed
        ]
    return rows


def _ends(folder: Path, logs, exact, envelope: Envelope) -> list[Row]:
    """Rows of what the trainings end with: buffers, predictions or forecasts of the test.

    exact  the logs of both in float64, if they ran
    """
    rows = []
    for key in dict.fromkeys(key for log in logs for key in log if is_compared(key)):
        if key == "curve/loss" or key not in envelope:
            continue  # what one side alone has, the first steps' rows say
        name = key.removeprefix("final/")
        label, found = f"train/final_{name}", envelope[key]
        values, truth = ([log[key] for log in of if key in log] for of in (logs, exact))
        if len(values) < 2:
            rows.append(claim(label, math.inf, 0.0, Kind.ON_ONE_SIDE_ALONE()))
        elif values[0].shape != values[1].shape:
            shapes = {"torch": values[0].shape, "paddle": values[1].shape}
            rows.append(claim(label, math.inf, 0.0, Kind.FINAL_OF_OTHER_SAMPLES(**shapes)))
        elif key == "predictions":
            rows.append(_predictions(values, truth, logs[0]["labels"], found))
        else:
            noise = first_noise(folder, f"/{name}") if key.startswith("final/") else 0.0
            what = Kind.FINAL_VALUES(name=name)
            rows.append(judged(label, values, truth, found, noise, what))
    return rows


def _predictions(values, truth, labels, found: Spread) -> Row:
    """In how many of the test samples do the sides predict otherwise?"""
    torch, paddle = values
    off = int((torch != paddle).sum())
    allowed = found.allowed() ** 2 * torch.size
    right = [(values == labels)[labels >= 0].mean() for values in (torch, paddle)]
    chance = found.variance * torch.size
    told = {"off": off, "size": torch.size, "chance": chance}
    said = Kind.FINAL_PREDICTIONS(**told, torch=right[0], paddle=right[1])
    row = claim("train/final_predictions", off, allowed, said)
    return in_float64(row, truth, lambda a, b: (a != b).sum(), chance)


def _learnt(side: str, log) -> Row:
    """Did a side train at all?  UNDECIDED where it did not: alike is then no finding.

    The loss must fall from the first fifth of the training to the last by more than the mean's own
    error there (twice), weights must move, and predictions be of more than one class.  One loss at
    each end has no error that could be known.
    """
    losses = np.asarray(log["curve/loss"], np.float64)
    fifth = max(min(2, losses.size // 2), losses.size // 5, 1)
    ends = losses[:fifth], losses[-fifth:]
    fell = float(ends[0].mean() - ends[1].mean())
    noise = math.sqrt(sum(np.var(end, ddof=min(1, end.size - 1)) / end.size for end in ends))
    said = []
    if fifth == 1:
        said.append(Kind.LEARNT_TOO_SHORT(count=losses.size))
    elif not fell > LEARNT * noise:
        said.append(Kind.LEARNT_WITHIN_ERROR(fell=fell, noise=noise))
    if not float(log["moved"]) > 0.0:
        said.append(Kind.LEARNT_NO_WEIGHT())
    classes = [np.unique(log[name]).size for name in ("predictions", "labels") if name in log]
    if len(classes) == 2 and classes[0] == 1 < classes[1]:
        said.append(Kind.LEARNT_ONE_CLASS())
    row = Row(f"train/learnt/{side}", "UNDECIDED" if said else "ROUNDING", gap=noise * LEARNT)
    row.allowed, row.measure, row.size = max(fell, 0.0), "claim", losses.size
    if said:
        row.add(Kind.LEARNT_NOTHING(side=side, why=said))
    else:
        row.add(Kind.LEARNT(first=ends[0].mean(), last=ends[1].mean()))
    row.origin = bool(said)
    return row


def _rate_too_high(folder: Path) -> list[str]:
    """A note where the pair's own learning rate makes the loss blow up: the user's to lower."""
    path = ResultFolder(folder).log("train_first", "torch", RunKind.FLOAT64)
    watch = Watch()
    if path.is_file():
        with read_log(path) as log:
            for key in log:
                if key.endswith("/loss"):
                    watch.see(float(log[key]))
    return [Kind.TRAIN_RATE_TOO_HIGH(problem=watch.problem)] if watch.problem else []


def _course(torch_log, paddle_log, patient: bool, seed: str = "") -> list[Row]:
    """Each epoch's samples in their order, as one hash an epoch; and each step's learning rate.

    patient  a side may stop early: what both have counts
    """
    curves = {}
    for name in ("order", "lr"):
        pair = [log[f"{seed}curve/{name}"] for log in (torch_log, paddle_log)]
        both = min(values.size for values in pair) if patient else None
        curves[name] = [values[:both] for values in pair]
    torch, paddle = curves["order"]
    wrong = int((torch != paddle).sum()) if torch.shape == paddle.shape else torch.size
    said = Kind.TRAIN_ORDER(count=wrong)
    torch, paddle = curves["lr"]
    off = float(np.abs(torch - paddle).max()) if torch.shape == paddle.shape else math.inf
    allowed = 1e-12 * float(np.abs(torch).max())
    return [
        claim(f"{seed}train/order", wrong, 0.0, said),
        claim(f"{seed}train/lr", off, allowed, Kind.TRAIN_SCHEDULE()),
    ]


def _early_stops(torch_log, paddle_log, settings) -> tuple[list[Row], list[str]]:
    """Does each side stop where its own scores say, and does each epoch take place until then?

    The sides may stop after different epochs: near the end their scores differ by what rounding
    grew to.  A note says so.
    """
    patience = settings["patience"]
    if not patience:
        return [], []
    rows, ended = [], {}
    for side, log in (("torch", torch_log), ("paddle", paddle_log)):
        curves = {name: log[f"curve/{name}"] for name in _score_names(log)}
        epochs = ended[side] = log["curve/order"].size
        scores = [{name: float(of[i]) for name, of in curves.items()} for i in range(epochs)]
        stop = stops_after(scores, settings, patience)
        wrong = abs(epochs - stop) if stop < math.inf else 0
        note = Kind.TRAIN_ENDED(side=side, epochs=epochs, wanted=stop if wrong else epochs)
        rows.append(claim(f"train/early_stop/{side}", wrong, 0.0, note))
    if ended["torch"] == ended["paddle"]:
        return rows, []
    return rows, [Kind.TRAIN_ENDED_APART(**ended)]
