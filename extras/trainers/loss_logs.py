"""Losses that somebody's trainer logged, read as one curve: steps, losses, and what each means.

    .csv .tsv            a line a step: a column of steps (step, global_step, iteration …) and one
                         of losses (loss, train_loss, train/loss …, or --losses-name);
                         TensorBoard's own CSV has Step and Value
    .jsonl .json         an object a line, or a list of them, with the same names
    trainer_state.json   transformers' and PaddleFormers' Trainer: log_history; each loss is the
                         mean over the steps since the last one
    events.out.tfevents… TensorBoard;  vdlrecords…  VisualDL;  or a folder with such files
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
from pathlib import Path

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.words import did_you_mean
from twincheck.extras.trainers import Kind
from twincheck.extras.trainers.event_files import scalars

STEPS = ("step", "global_step", "steps", "iteration", "iter", "it", "global_step/max_steps")
NAMES = ("loss", "train/loss", "train_loss", "training_loss", "loss/train", "value")
_LOSS = re.compile(r"(^|[^a-z])(loss|value)([^a-z]|$)")
_OTHERS = re.compile(r"eval|val(id|idation)?([^a-z]|$)|test|dev([^a-z]|$)")
_SMOOTH = re.compile(r"smooth|(^|[^a-z])(ema|avg|average|mean|running|moving)([^a-z]|$)")
_TEXT = re.compile(r"(?:^|[^a-z_])loss\s*[:=]\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))", re.I)
_TEXT_STEP = re.compile(r"(?:global_step|step|iter(?:ation)?)s?\s*[:=]?\s*\[?(\d+)", re.I)
_GUIDE_STEP = re.compile(r"\[Epoch (\d+)/\d+\]\[Iter: (\d+)/(\d+)\]")
MAX_BYTES = 1 << 28
FEW = 5  # values: of fewer, their digits do not show how many the file writes
LEAST_WEIGHT = 0.05  # of smoothing: less hides nothing
DIGITS = 4  # what a file of few values is taken to write, as transformers' Trainer does


@dataclass(frozen=True)
class Curve:
    """The losses of one training, as they were logged."""

    path: str  # "" of a training that ran here
    format: str
    name: str
    steps: np.ndarray  # (N,) int64, growing
    losses: np.ndarray  # (N,) float64
    means: bool | None  # each is the mean since the last; False: of its own step; None: not said
    step_of_values: float  # how far apart two values can be that the file writes alike
    notes: tuple[str, ...] = field(default=())

    @property
    def every(self) -> int | None:
        """Steps between two losses; None where that is not always the same."""
        apart = np.unique(np.diff(self.steps))
        return int(apart[0]) if apart.size == 1 else (1 if self.steps.size == 1 else None)


def read_losses(path: Path, name: str | None = None) -> Curve:
    """The curve in a file; raises UserError, in one sentence, for what holds none.

    name    of the column or tag; without it the one that is called loss
    """
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if "tfevents" in p.name or "vdlrecords" in p.name)
        if not found:
            raise UserError(Kind.EVENTS_NOT_IN_FOLDER(path=str(path)))
        return _of_events(path, found, name)
    if not path.exists():
        raise UserError(Kind.FILE_MISSING(path=str(path)))
    if "tfevents" in path.name or "vdlrecords" in path.name:
        return _of_events(path, [path], name)
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
        return _of_csv(path, text, name)
    return _of_text(path, text, name)


# ---- formats ------------------------------------------------------------------------------------


def _of_csv(path: Path, text: str, name: str | None) -> Curve:
    first = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = list(csv.DictReader(io.StringIO(text.lstrip()), delimiter=delimiter))
    except csv.Error as error:
        raise UserError(Kind.NO_CSV(path=str(path), error=str(error))) from None
    return _of_rows(path, "csv", rows, name)


def _of_json(path: Path, text: str, name: str | None) -> Curve:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("log_history"), list):
        rows = [row for row in whole["log_history"] if isinstance(row, dict)]
        wanted = name or "loss"
        rows = [row for row in rows if wanted in row]
        if not rows:
            raise UserError(Kind.NO_ENTRY(path=str(path), name=wanted))
        return replace(_of_rows(path, "trainer_state", rows, wanted), means=True)
    rows = whole if isinstance(whole, list) else [whole] if isinstance(whole, dict) else []
    for number, line in enumerate([] if rows else text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            raise UserError(Kind.NO_JSON(path=str(path), line=number)) from None
    rows = [row for row in rows if isinstance(row, dict)]
    return _of_rows(path, "jsonl", rows, name)


def _of_text(path: Path, text: str, name: str | None) -> Curve:
    if name not in (None, "loss"):
        raise UserError(Kind.TEXT_OF_LOSS_ALONE(path=str(path), name=name))
    rows = []
    for line in text.splitlines():
        found = _TEXT.search(line)
        if found and not _OTHERS.search(line[: found.start()].lower()):
            step = _TEXT_STEP.search(line)
            of_epoch = _GUIDE_STEP.search(line)
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


def _of_events(path: Path, files: Sequence[Path], name: str | None) -> Curve:
    visualdl = "vdlrecords" in files[0].name
    found: dict[str, list[dict]] = {}
    for file in files:
        for tag, step, value in scalars(file, visualdl):
            found.setdefault(tag, []).append({"step": step, tag: value})
    tag = _chosen(path, list(found), name)
    curve = _of_rows(path, "visualdl" if visualdl else "tensorboard", found[tag], tag)
    # Trainers round what they write; the file then keeps it in float32.
    shortest = [str(value) for value in curve.losses.astype(np.float32)]
    spacing = float(np.spacing(np.float32(np.nanmax(np.abs(curve.losses)))))
    return replace(curve, step_of_values=max(spacing, _step_of_values(shortest)))


# ---- columns ------------------------------------------------------------------------------------


def _of_rows(path: Path, kind: str, rows: Sequence[dict], name: str | None) -> Curve:
    columns = list(dict.fromkeys(str(key) for row in rows for key in row if key is not None))
    name = _chosen(path, columns, name)
    by_name = {column.strip().lower(): column for column in columns}
    step = next((by_name[known] for known in STEPS if known in by_name), None)
    notes = []
    kept = [row for row in rows if row.get(name) not in (None, "")]
    losses = [_number(path, name, row[name]) for row in kept]
    if not losses:
        raise UserError(Kind.COLUMN_EMPTY(path=str(path), name=name))
    others = [c for c in columns if c != name and _is_loss(c)]
    if others:
        notes.append(Kind.ALSO_THERE(name=name, others=others))
    if step is None:
        steps = list(range(1, len(losses) + 1))
        notes.append(Kind.STEPS_NUMBERED())
    else:
        steps = [_whole(path, step, row.get(step)) for row in kept]
    digits = _step_of_values([str(row[name]) for row in kept])
    epoch = by_name.get("epoch")
    epochs = [str(row.get(epoch)) for row in kept] if epoch else None
    steps, losses, more = _in_order(path, steps, losses, epochs)
    numbers = np.array(steps, np.int64), np.array(losses)
    return Curve(str(path), kind, name, *numbers, None, digits, (*notes, *more))


def _chosen(path: Path, columns: Sequence[str], name: str | None) -> str:
    """The column of losses; raises UserError that lists them where it is not plain which."""
    of_file = {"path": str(path), "columns": _some(columns)}
    if name is not None:
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise UserError(Kind.COLUMN_MISSING(name=name, hint=hint, **of_file))
        return name
    candidates = [column for column in columns if _is_loss(column)]
    raw = [column for column in candidates if not _SMOOTH.search(column.lower())]
    if candidates and not raw:
        raise UserError(Kind.COLUMN_SMOOTHED(path=str(path), columns=_some(candidates)))
    best = [c for known in NAMES for c in raw if c.strip().lower() == known]
    raw = best[:1] or raw
    if len(raw) == 1:
        return raw[0]
    if raw:
        of_file["columns"] = _some(raw)
        raise UserError(Kind.COLUMNS_SEVERAL(first=raw[0], **of_file))
    raise UserError(Kind.COLUMNS_NO_LOSS(**of_file))


def _is_loss(column: str) -> bool:
    name = column.strip().lower().replace("_", "/")
    return bool(_LOSS.search(name)) and not _OTHERS.search(name.replace("value", "loss"))


def _some(names: Sequence[str]) -> str:
    some = Kind.NAMES_AND_MORE if len(names) > 8 else Kind.NAMES
    return some(names=list(names[:8])) if names else Kind.NOTHING()


def _number(path: Path, name: str, value: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        said = {"path": str(path), "name": name, "value": str(value)[:40]}
        raise UserError(Kind.NOT_A_NUMBER(**said)) from None


def _whole(path: Path, name: str, value: object) -> int:
    """A step; ms-swift's are `3/100`, and some write 3.0."""
    try:
        number = float(str(value).partition("/")[0])
        if number != int(number):
            raise ValueError
        return int(number)
    except (ValueError, OverflowError):
        said = {"path": str(path), "name": name, "value": str(value)[:40]}
        raise UserError(Kind.NOT_A_STEP(**said)) from None


def _step_of_values(texts: Sequence[str]) -> float:
    """How far apart two values are at least that are written with so many digits; 0: all."""
    places = []
    for text in texts:
        try:
            exponent = Decimal(text.strip()).as_tuple().exponent
        except ArithmeticError:
            continue
        if isinstance(exponent, int):
            places.append(-exponent)
    most = max(places, default=0)
    if len(places) < FEW:
        most = max(most, DIGITS)
    return 0.0 if most > 10 else 10.0**-most


# ---- order --------------------------------------------------------------------------------------


def _in_order(path: Path, steps: list[int], losses: list[float], epochs: list[str] | None):
    """Steps that grow: micro-batches averaged, epochs' own counts joined, restarts resolved."""
    notes = []
    goes_back = [i for i in range(1, len(steps)) if steps[i] < steps[i - 1]]
    if goes_back and epochs and all(epochs[i] != epochs[i - 1] for i in goes_back):
        notes.append(Kind.STEPS_JOINED())
        offset, joined = 0, []
        for i, step in enumerate(steps):
            if i in set(goes_back):
                offset = joined[-1] + 1 - min(steps)
            joined.append(step + offset)
        steps, goes_back = joined, []
    found: dict[int, list[float]] = {}
    for i, (step, loss) in enumerate(zip(steps, losses, strict=True)):
        if i in goes_back:
            again = sum(1 for former in found if former >= step)
            notes.append(Kind.BEGINS_AGAIN(step=step, count=again))
            found = {former: values for former, values in found.items() if former < step}
        found.setdefault(step, []).append(loss)
    counts = {len(values) for values in found.values()}
    if counts != {1}:
        if len(counts) > 1:
            twice = next(step for step, values in found.items() if len(values) > 1)
            raise UserError(Kind.STEP_OF_SEVERAL(path=str(path), step=twice))
        notes.append(Kind.MEAN_TAKEN(count=counts.pop()))
    ordered = sorted(found)
    return ordered, [math.fsum(found[s]) / len(found[s]) for s in ordered], notes


# ---- two curves brought together ----------------------------------------------------------------


@dataclass(frozen=True)
class Together:
    """Two curves at the same places."""

    steps: np.ndarray  # (N,): the last step of each place
    widths: np.ndarray  # (N,): of how many steps each is the mean; 1: of that step alone
    torch: np.ndarray
    paddle: np.ndarray
    start: int = 0  # the number before the first step's
    notes: tuple[str, ...] = ()


def together(torch: Curve, paddle: Curve, alike: Callable[[float, float], bool]) -> Together:
    """Both curves over the same steps; raises UserError where nothing can be compared.

    alike   whether two losses are equal but for rounding
    """
    notes = []
    shift = int(torch.steps[0] - paddle.steps[0])
    if abs(shift) == 1 and torch.every == paddle.every:
        paddle = replace(paddle, steps=paddle.steps + shift)
        notes.append(Kind.STEPS_FROM_ANOTHER(shift=shift))
    elif torch.every != paddle.every:
        torch, paddle = _from_one(torch, paddle), _from_one(paddle, torch)
    ways = [(a, b) for a in _ways(torch) for b in _ways(paddle)]
    tried = [each for each in (_over(a, b, torch, paddle) for a, b in ways) if each.steps.size]
    both = {"torch": told(torch), "paddle": told(paddle)}
    if not tried:
        raise UserError(Kind.NO_STEP_IN_BOTH(**both))
    equal = [np.mean([alike(a, b) for a, b in zip(e.torch, e.paddle, strict=True)]) for e in tried]
    found = tried[max(range(len(tried)), key=lambda i: (equal[i], tried[i].steps.size))]
    if len(tried) > 1 and torch.every != paddle.every:
        taken = Kind.TAKEN_AS if max(equal) else Kind.TAKEN_ALTHOUGH
        what = Kind.MEAN_SINCE_LAST if found.widths.max() > 1 else Kind.LOSS_OF_STEP
        notes.append(taken(what=what()))
    if torch.every != paddle.every or torch.every is None:
        notes.append(Kind.SIDES_HAVE(**both))
    if torch.every == paddle.every and torch.steps.size != paddle.steps.size:
        notes.append(Kind.IN_BOTH(count=found.steps.size, **both))
    begins = [int(c.steps[0]) - _windows(c)[int(c.steps[0])][0] for c in (torch, paddle)]
    own = found.widths.max() == 1 and 1 in (torch.every, paddle.every)
    begins = [b for b, c in zip(begins, (torch, paddle), strict=True) if c.every == 1 or not own]
    return replace(found, start=min(begins), notes=tuple(notes))


def _from_one(curve: Curve, coarse: Curve) -> Curve:
    """A curve that counts from 0, from 1 where the other has each tenth of steps that do."""
    counts = coarse.every is not None and coarse.steps[0] == coarse.every > 1
    return replace(curve, steps=curve.steps + 1) if counts and curve.steps[0] == 0 else curve


def _ways(curve: Curve) -> tuple[bool, ...]:
    """What its losses may be: means since the last (True), of their own step (False)."""
    if curve.every == 1:
        return (True,)
    return (True, False) if curve.means is None else (curve.means,)


def _over(means_torch: bool, means_paddle: bool, torch: Curve, paddle: Curve) -> Together:
    """Both at common places, taken as means since the last or as single steps."""
    if means_torch and means_paddle:
        sides = [_windows(curve) for curve in (torch, paddle)]
        ends = sorted(set(sides[0]) & set(sides[1]))
        rows = []
        for k, end in enumerate(ends):
            begin = ends[k - 1] if k else None
            means = [_mean(windows, begin, end) for windows in sides]
            if None not in means and means[0][1] == means[1][1]:
                rows.append((end, means[0][1], means[0][0], means[1][0]))
    else:
        own = [dict(zip(c.steps.tolist(), c.losses.tolist(), strict=True)) for c in (torch, paddle)]
        if means_torch != means_paddle:  # the one of means must have every step
            fine = torch if means_torch else paddle
            if fine.every != 1:
                own = [{}, {}]
        rows = [(s, 1, own[0][s], own[1][s]) for s in sorted(set(own[0]) & set(own[1]))]
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 4
    return Together(columns[0].astype(np.int64), columns[1].astype(np.int64), *columns[2:])


def _windows(curve: Curve) -> dict[int, tuple[int, float]]:
    """Last step -> (how many steps, their mean), of each loss since the last."""
    steps = curve.steps.tolist()
    apart = np.diff(curve.steps)
    usual = int(np.median(apart)) if apart.size else 1
    first = steps[0] if steps[0] < usual else usual  # logged at step 1, or at the first 10
    widths = [max(first, 1), *apart.tolist()]
    if usual == 1 and not curve.means:
        widths = [1] * len(steps)  # a step that is missing is no part of the next one's
    return dict(zip(steps, zip(widths, curve.losses.tolist(), strict=True), strict=True))


def _mean(windows: dict[int, tuple[int, float]], begin: int | None, end: int):
    """(mean, steps) over the windows behind `begin` up to `end`; None where some are missing."""
    inside = [(s, *windows[s]) for s in windows if s <= end and (begin is None or s > begin)]
    total = sum(width for _, width, _ in inside)
    if begin is None and len(inside) > 1 and total < end - (inside[0][0] - inside[0][1]):
        return None
    if begin is not None and total != end - begin and len(inside) > 1:
        return None
    return math.fsum(width * loss for _, width, loss in inside) / total, total


def told(curve: Curve) -> str:
    """How many losses of which steps."""
    which = Kind.OF_EVERY_STEP() if curve.every else Kind.AT_IRREGULAR_STEPS()
    if curve.every not in (1, None):
        which = Kind.OF_EVERY_STEPS(count=curve.every)
    places = {"first": int(curve.steps[0]), "last": int(curve.steps[-1])}
    return Kind.LOSSES(count=curve.steps.size, which=which, **places)


# ---- smoothing ----------------------------------------------------------------------------------


def smoothing(raw: np.ndarray, other: np.ndarray, allowed: float) -> str:
    """How `other` was smoothed from `raw`, in words; empty where it was not.

    TensorBoard's and the usual moving average with a weight, and the mean since the start.
    """
    count = min(raw.size, other.size, 50)
    a, b = raw[:count], other[:count]
    if count < 4 or np.abs(a - b).max() <= 10 * allowed or abs(a[0] - b[0]) > allowed:
        return ""
    if np.abs(np.cumsum(a) / np.arange(1, count + 1) - b).max() <= 2 * allowed:
        return Kind.MEAN_SINCE_START()
    # TensorBoard's begins at 0, and divides by what has come together of the weights.
    for how, weight, start, divided in (
        (Kind.MOVING_AVERAGE, (b[1] - a[1]) / (a[0] - a[1]), a[0], False),
        (Kind.TENSORBOARDS_SMOOTHING, (a[1] - b[1]) / (b[1] - a[0]), 0.0, True),
    ):
        if LEAST_WEIGHT < weight < 1.0:
            guess = _moving(a, weight, start)
            guess /= 1.0 - weight ** np.arange(1, count + 1) if divided else 1.0
            near = np.abs(guess - b).max()
            # The weight comes from two values, which are written with few digits.
            slack = allowed * (2.0 + 4.0 * np.abs(a - a[0]).max() / abs(a[0] - a[1]))
            if near <= slack:
                return how(weight=float(weight))
    return ""


def _moving(values: np.ndarray, weight: float, start: float) -> np.ndarray:
    smooth = [start]
    for value in values:
        smooth.append(weight * smooth[-1] + (1.0 - weight) * value)
    return np.array(smooth[1:])
