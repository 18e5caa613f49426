"""Losses that somebody's trainer logged, read as one curve: steps, losses, and what each means.

    .csv .tsv            a line a step: a column of steps (step, global_step, iteration …) and one
                         of losses (loss, train_loss, train/loss …, or --losses-name);
                         TensorBoard's own CSV has Step and Value
    .jsonl .json         an object a line, or a list of them, with the same names
    trainer_state.json   transformers' and PaddleFormers' Trainer: log_history; each loss is the
                         mean over the steps since the last one
    any other text       lines with `loss: 0.123`, such as the guide's train.log

NumPy only.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.words import did_you_mean
from twincheck.extras.trainers import Kind

STEPS = ("step", "global_step", "steps", "iteration", "iter", "it", "global_step/max_steps")
NAMES = ("loss", "train/loss", "train_loss", "training_loss", "loss/train", "value")
_OF_ANOTHER_PART = re.compile(r"eval|val(id|idation)?([^a-z]|$)|test|dev([^a-z]|$)", re.I)
_TEXT = re.compile(r"(?:^|[^a-z_])loss\s*[:=]\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))", re.I)
_TEXT_STEP = re.compile(r"(?:global_step|step|iter(?:ation)?)s?\s*[:=]?\s*\[?(\d+)", re.I)
_GUIDE_STEP = re.compile(r"\[Epoch (\d+)/\d+\]\[Iter: (\d+)/(\d+)\]")
MAX_BYTES = 1 << 28
FEW = 5  # values: of fewer, their digits do not show how many the file writes
DIGITS = 4  # what a file of few values is taken to write, as transformers' Trainer does


@dataclass(frozen=True)
class Curve:
    """The losses of one training, as they were logged."""

    path: str  # "" of a training that ran here
    format: str
    name: str
    steps: np.ndarray  # (N,) int64, growing, from 1 on
    losses: np.ndarray  # (N,) float64
    means: bool | None  # each is the mean since the last; None: not said
    step_of_values: float  # how far apart two values can be that the file writes alike
    notes: tuple[str, ...] = field(default=())

    @property
    def every(self) -> int | None:
        """Steps between two losses; None where that is not always the same."""
        apart = np.unique(np.diff(self.steps))
        return int(apart[0]) if apart.size == 1 else (1 if self.steps.size == 1 else None)


def trained_here(losses: np.ndarray) -> Curve:
    """The curve of a training that ran here, of which every step's loss is known."""
    steps = np.arange(1, losses.size + 1)
    return Curve("", "step 5", "loss", steps, losses, True, 0.0)


def read_losses(path: Path, name: str | None = None) -> Curve:
    """The curve in a file; raises UserError, in one sentence, for what holds none.

    name    of the column; without it the one that is called loss
    """
    with open_plain(path, links=True) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UserError(Kind.FILE_TOO_LARGE(path=str(path), size=MAX_BYTES >> 20))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(Kind.FILE_NO_TEXT(path=str(path))) from None
    if re.match(r"\s*(\{|\[\s*\{)", text):  # a text's line may begin with [, too
        return _of_json(path, text, name)
    first = text.lstrip().partition("\n")[0]
    if re.search(r"[,;\t]", first) and not _TEXT.search(first):
        delimiter = max(",;\t", key=first.count)
        try:
            rows = list(csv.DictReader(io.StringIO(text.lstrip()), delimiter=delimiter))
        except csv.Error as error:
            raise UserError(Kind.NO_CSV(path=str(path), error=str(error))) from None
        return _of_rows(path, "csv", rows, name)
    return _of_text(path, text, name)


def _of_json(path: Path, text: str, name: str | None) -> Curve:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("log_history"), list):
        wanted = name or "loss"
        rows = [row for row in whole["log_history"] if isinstance(row, dict) and wanted in row]
        if not rows:
            raise UserError(Kind.NO_ENTRY(path=str(path), name=wanted))
        return replace(_of_rows(path, "trainer_state", rows, wanted), means=True)
    rows = whole if isinstance(whole, list) else [whole] if isinstance(whole, dict) else []
    for number, line in enumerate([] if rows else text.splitlines(), 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            raise UserError(Kind.NO_JSON(path=str(path), line=number)) from None
    return _of_rows(path, "jsonl", [row for row in rows if isinstance(row, dict)], name)


def _of_text(path: Path, text: str, name: str | None) -> Curve:
    if name not in (None, "loss"):
        raise UserError(Kind.TEXT_OF_LOSS_ALONE(path=str(path), name=name))
    rows = []
    for line in text.splitlines():
        found = _TEXT.search(line)
        if found and not _OF_ANOTHER_PART.search(line[: found.start()]):
            step, of_epoch = _TEXT_STEP.search(line), _GUIDE_STEP.search(line)
            rows.append({"loss": found.group(1)})
            if of_epoch:  # the guide's form counts the steps of each epoch anew
                epoch, number, per_epoch = map(int, of_epoch.groups())
                rows[-1]["step"] = (epoch - 1) * per_epoch + number
            elif step:
                rows[-1]["step"] = step.group(1)
    if not rows:
        raise UserError(Kind.TEXT_WITHOUT_LOSS(path=str(path)))
    if not all("step" in row for row in rows):
        rows = [{"loss": row["loss"]} for row in rows]
    return _of_rows(path, "training log", rows, "loss")


# ---- columns ------------------------------------------------------------------------------------


def _of_rows(path: Path, kind: str, rows: Sequence[dict], name: str | None) -> Curve:
    columns = list(dict.fromkeys(str(key) for row in rows for key in row if key is not None))
    name = _chosen(path, columns, name)
    by_name = {column.strip().lower(): column for column in columns}
    step = next((by_name[known] for known in STEPS if known in by_name), None)
    notes = []
    kept = [row for row in rows if row.get(name) not in (None, "")]
    losses = [_number(path, name, row[name], Kind.NOT_A_NUMBER) for row in kept]
    if not losses:
        raise UserError(Kind.COLUMN_EMPTY(path=str(path), name=name))
    if step is None:
        steps = list(range(1, len(losses) + 1))
        notes.append(Kind.STEPS_NUMBERED())
    else:
        steps = [_whole(path, step, row.get(step)) for row in kept]
    epoch = by_name.get("epoch")
    epochs = [str(row.get(epoch)) for row in kept] if epoch else None
    steps, losses, more = _in_order(path, steps, losses, epochs)
    digits = _step_of_values([str(row[name]) for row in kept])
    numbers = np.array(steps, np.int64), np.array(losses)
    return Curve(str(path), kind, name, *numbers, None, digits, (*notes, *more))


def _chosen(path: Path, columns: Sequence[str], name: str | None) -> str:
    """The column of losses; raises UserError that lists them where none is the one."""
    if name is not None:
        if name not in columns:
            hint = did_you_mean(name, columns)
            of_file = {"path": str(path), "columns": list(columns)}
            raise UserError(Kind.COLUMN_MISSING(name=name, hint=hint, **of_file))
        return name
    by_name = {column.strip().lower(): column for column in reversed(columns)}
    found = next((by_name[known] for known in NAMES if known in by_name), None)
    if found is None:
        raise UserError(Kind.COLUMNS_NO_LOSS(path=str(path), columns=list(columns)))
    return found


def _number(path: Path, name: str, value: object, kind: Callable) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise UserError(kind(path=str(path), name=name, value=str(value)[:40])) from None


def _whole(path: Path, name: str, value: object) -> int:
    """A step; ms-swift's are `3/100`, and some write 3.0."""
    number = _number(path, name, str(value).partition("/")[0], Kind.NOT_A_STEP)
    if not number.is_integer():  # infinity and NaN are none
        raise UserError(Kind.NOT_A_STEP(path=str(path), name=name, value=str(value)[:40]))
    return int(number)


def _step_of_values(texts: Sequence[str]) -> float:
    """Return the step between values that are written with so many digits; 0: all are there."""
    places = [-Decimal(text).as_tuple().exponent for text in texts if math.isfinite(float(text))]
    most = max(places, default=0)
    if len(places) < FEW:
        most = max(most, DIGITS)
    return 0.0 if most > 10 else 10.0**-most


def _in_order(path: Path, steps: list[int], losses: list[float], epochs: list[str] | None):
    """Steps that grow, from 1: micro-batches averaged, epochs' counts joined, restarts resolved."""
    notes = []
    goes_back = [i for i in range(1, len(steps)) if steps[i] < steps[i - 1]]
    if goes_back and epochs and all(epochs[i] != epochs[i - 1] for i in goes_back):
        notes.append(Kind.STEPS_JOINED())
        offset, least, joined = 0, min(steps), []
        for i, step in enumerate(steps):
            if i in goes_back:
                offset = joined[-1] + 1 - least
            joined.append(step + offset)
        steps, goes_back = joined, []
    found: dict[int, list[float]] = {}
    for i, (step, loss) in enumerate(zip(steps, losses, strict=True)):
        if i in goes_back:
            kept = {former: values for former, values in found.items() if former < step}
            notes.append(Kind.BEGINS_AGAIN(step=step, count=len(found) - len(kept)))
            found = kept
        found.setdefault(step, []).append(loss)
    counts = {len(values) for values in found.values()}
    if len(counts) > 1:
        twice = next(step for step, values in found.items() if len(values) > 1)
        raise UserError(Kind.STEP_OF_SEVERAL(path=str(path), step=twice))
    if counts != {1}:
        notes.append(Kind.MEAN_TAKEN(count=counts.pop()))
    ordered = sorted(found)
    means = [math.fsum(found[step]) / len(found[step]) for step in ordered]
    if ordered[0] == 0:
        notes.append(Kind.STEPS_FROM_ZERO())
        ordered = [step + 1 for step in ordered]
    return ordered, means, notes


# ---- two curves brought together ----------------------------------------------------------------


@dataclass(frozen=True)
class Together:
    """Two curves at the same places."""

    steps: np.ndarray  # (N,): the last step of each place
    widths: np.ndarray  # (N,): of how many steps each is the mean; 1: of that step alone
    torch: np.ndarray
    paddle: np.ndarray
    notes: tuple[str, ...] = ()


def together(torch: Curve, paddle: Curve, alike: Callable[[float, float], bool]) -> Together:
    """Put both curves over the same steps; raises UserError where nothing can be compared.

    alike   whether two losses are equal but for rounding
    """
    ways = [(a, b) for a in _windows(torch) for b in _windows(paddle)]
    tried = [each for each in (_over(a, b) for a, b in ways) if each.steps.size]
    both = {"torch": told(torch), "paddle": told(paddle)}
    if not tried:
        raise UserError(Kind.NO_STEP_IN_BOTH(**both))
    equal = [np.mean([alike(a, b) for a, b in zip(e.torch, e.paddle, strict=True)]) for e in tried]
    found = tried[max(range(len(tried)), key=lambda i: (equal[i], tried[i].steps.size))]
    notes = []
    if torch.every != paddle.every:
        if len(tried) > 1:
            taken = Kind.TAKEN_AS if max(equal) else Kind.TAKEN_ALTHOUGH
            what = Kind.MEAN_SINCE_LAST if found.widths.max() > 1 else Kind.LOSS_OF_STEP
            notes.append(taken(what=what()))
        notes.append(Kind.SIDES_HAVE(**both))
    elif torch.steps.size != paddle.steps.size:
        notes.append(Kind.IN_BOTH(count=found.steps.size, **both))
    return replace(found, notes=tuple(notes))


Window = tuple[int, int, float]  # the step before, the last step, the mean of those between


def _windows(curve: Curve) -> list[list[Window]]:
    """The steps that each loss is of, as often as the log can be read.

    Since the last one, or, where the log does not say so, its own step alone.
    """
    steps, losses = curve.steps.tolist(), curve.losses.tolist()
    own = [(step - 1, step, loss) for step, loss in zip(steps, losses, strict=True)]
    apart = np.diff(curve.steps)
    usual = int(np.median(apart)) if apart.size else 1
    if usual == 1 and not curve.means:  # a step that is missing is no part of the next one's
        return [own]
    first = max(0, steps[0] - usual)  # logged at step 1, or at the first 10
    means = list(zip([first, *steps], steps, losses, strict=False))
    return [means] if curve.means or means == own else [means, own]


def _over(torch: Sequence[Window], paddle: Sequence[Window]) -> Together:
    """The shortest stretches of steps that windows of both sides fill."""
    sides = [tuple(map(np.array, zip(*windows, strict=True))) for windows in (torch, paddle)]
    cuts = [np.union1d(begins, ends) for begins, ends, _ in sides]
    common, rows = np.intersect1d(*cuts), []
    for begin, end in pairwise(common.tolist()):
        means = []
        for begins, ends, losses in sides:
            inside = slice(np.searchsorted(begins, begin), np.searchsorted(ends, end, "right"))
            widths = ends[inside] - begins[inside]
            if widths.sum() == end - begin:  # else a step of it is in no window
                means.append(math.fsum(losses[inside] * widths) / (end - begin))
        if len(means) == 2:
            rows.append((end, end - begin, *means))
    columns = np.array(rows).reshape(-1, 4).T
    return Together(columns[0].astype(np.int64), columns[1].astype(np.int64), *columns[2:])


def told(curve: Curve) -> str:
    """Say how many losses of which steps a curve has."""
    which = Kind.OF_EVERY_STEP() if curve.every else Kind.AT_IRREGULAR_STEPS()
    if curve.every not in (1, None):
        which = Kind.OF_EVERY_STEPS(count=curve.every)
    places = {"first": int(curve.steps[0]), "last": int(curve.steps[-1])}
    return Kind.LOSSES(count=curve.steps.size, which=which, **places)
