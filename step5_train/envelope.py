"""How far rounding alone drives two trainings apart: measured on self-twins of both sides.

The check's process only (SciPy).  A side's self-twins are its own training, begun from weights and
with constants of Adam that are each moved by one rounding of float32 (step5_train/train.py).  How
they and the run itself scatter says how far apart two runs come that compute the same; it is
measured on both sides, since Paddle's float32 is not torch's.

For what is compared (the losses of a part of the training, the final predictions or forecasts, each
buffer) torch's and Paddle's values differ by a vector.  Where both trainings are the same, each of
its elements has mean 0 and the variance

    s_torch² + s_paddle² + n_torch² + n_paddle²

s² is the runs' scatter, and n² how far each side's float32 is off its own float64 in the first
steps: however alike they train, two frameworks round a loss otherwise.  Dempster's test (1958:
vectors of more elements than there are runs) holds the mean square of the difference
against it by the F distribution with r and r m degrees of freedom: m those of the scatter, r how
many elements vary by themselves, (tr S)² / tr(S²) of the runs' scatter S.  Runs that have all moved
along one line (r = 1) say less of the next one than runs that differ everywhere.

A discrete choice (a hash bucket, a top-k) that falls otherwise makes a run jump, at a step of its
own: of models that choose, a run may be in one part where the others come in the next, so the
larger scatter of the two counts (measured: of 14 runs of Informer one jumped in the first epoch).

A built-in preset's envelope is in step5_train/envelopes, written by `python -m tools.envelopes`.
It holds until something changes that the training depends on, and is measured anew from then on.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import load_json
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.measures import rms
from twincheck.common.verdict.row import Row, claim

# One false alarm in so many rows, if the test's distribution were exact.
ALARMS = 10_000
STORED = ROOT / "step5_train" / "envelopes"
# A part of a training whose drift is one row: an epoch, or several where they have fewer steps.
PART_STEPS = 8
# The workbench's files that a training's numbers depend on.
_TRAINING = (
    "step5_train/train.py",
    "step5_train/training.py",
    "common/pair/schedules.py",
    "common/pair/tape.py",
    *(f"common/sides/{name}.py" for name in ("optimizer", "dropouts", "batch_norm")),
    *(f"common/sides/backend_{side}.py" for side in SIDES),
)


@dataclass(frozen=True)
class Spread:
    """The scatter of both sides' runs about their side's mean."""

    # Of an element, the sides' added: the mean square that two runs, one of each side, are apart.
    variance: float
    dimensions: float  # how many elements vary by themselves: 1 to `freedom`
    freedom: int  # degrees of freedom of the scatter: runs of both sides less 2

    def allowed(self, noise: float = 0.0) -> float:
        """The largest rms difference that is one of rounding.

        noise  the mean square of what float32 itself is off on both sides
        """
        from scipy.stats import f

        quantile = f.isf(1.0 / ALARMS, self.dimensions, self.dimensions * self.freedom)
        return math.sqrt(quantile * (self.variance + noise))


def spread(torch: Sequence[np.ndarray], paddle: Sequence[np.ndarray]) -> Spread:
    """The scatter of the runs of each side: arrays of one shape, at least two a side."""
    variance, parts = 0.0, []
    for runs in (torch, paddle):
        values = np.stack([np.ravel(run) for run in runs]).astype(np.float64)
        off = values - values.mean(axis=0)
        variance += float(np.mean(off * off)) * len(runs) / (len(runs) - 1)
        parts.append(off / math.sqrt(len(runs) - 1))
    off = np.concatenate(parts)
    own = off @ off.T  # the same eigenvalues as of the scatter of the elements, which are many
    total, square = float(np.trace(own)), float(np.sum(own * own))
    freedom = len(torch) + len(paddle) - 2
    dimensions = total * total / square if square else 1.0
    return Spread(variance, max(1.0, min(dimensions, freedom)), freedom)


def spread_of_choices(torch: Sequence[np.ndarray], paddle: Sequence[np.ndarray]) -> Spread:
    """Measure how runs' choices scatter: an element is a sample, 1 where two choose otherwise.

    As if one more pair of runs had differed in one sample: where none has, the next may.
    """
    classes = np.unique(np.concatenate([*torch, *paddle]))
    hot = [[(run[..., None] == classes) for run in runs] for runs in (torch, paddle)]
    found = spread(*hot)
    pairs = sum(math.comb(len(runs), 2) for runs in hot)
    # Two choices differ in two elements of `classes.size`.
    variance = found.variance * classes.size / 2 + 1.0 / (pairs * torch[0].size)
    return Spread(variance, found.dimensions, found.freedom)


def apart(torch: np.ndarray, paddle: np.ndarray) -> float:
    """The root of the mean square of what two arrays differ by."""
    return rms(torch - paddle)


def judged(key: str, values, truth, found: Spread, noise: float, what: str) -> Row:
    """The row of a difference: no more than rounding makes, or DIVERGED.

    truth  both sides' values of trainings in float64; empty where none have run
    """
    off = apart(*values)
    told = {"what": what, "off": off, "alone": math.sqrt(found.variance)}
    note = Kind.APART_BESIDE_NOISE(**told, noise=math.sqrt(noise)) if noise else Kind.APART(**told)
    row = replace(claim(key, off, found.allowed(noise), note), size=values[0].size)
    return in_float64(row, truth, apart, math.sqrt(found.variance + noise))


def in_float64(row: Row, truth, apart, two_runs: float) -> Row:
    """The row, or where float32 took trainings too far apart what those in float64 come to.

    Twins are moved by roundings that fall at random; that a side rounds always one way shows here
    alone (measured: Paddle's running variance, 2e-6 of it, 200 times what is left in float64).

    apart     (torch, paddle) -> how far apart they are, as the row has it
    two_runs  how far two runs are that rounding alone separates
    """
    if row.verdict != "DIVERGED" or len(truth) < 2 or truth[0].shape != truth[1].shape:
        return row
    off = float(apart(*truth))
    row.add(Kind.APART_IN_FLOAT64(off=off))
    exact = claim(row.key, off, two_runs, *row.reasons)
    return row if exact.origin else replace(exact, size=row.size)


# ---- what is measured ---------------------------------------------------------------------------


Envelope = dict[str, Spread]  # name of what is compared -> how it scatters


def measured(folder: Path, parts: Sequence[tuple[str, np.ndarray]]) -> Envelope:
    """The envelope of the trainings and the self-twins in a result folder.

    parts  (name, its steps) of the training
    """
    torch, paddle = (runs_of(folder, side) for side in SIDES)
    losses = [[each["curve/loss"] for each in side] for side in (torch, paddle)]
    found = spreads_of(*losses, parts)
    for name in torch[0]:
        if not all(name in each for each in (*torch, *paddle)) or name == "curve/loss":
            continue
        how = spread_of_choices if name == "predictions" else spread
        found[name] = how(*([each[name] for each in side] for side in (torch, paddle)))
    return found


def spreads_of(torch, paddle, parts) -> Envelope:
    """Return `drift/PART` -> the spread of the losses of each part, over the runs of each side."""
    return {
        f"drift/{name}": spread(*([run[steps] for run in side] for side in (torch, paddle)))
        for name, steps in parts
    }


def runs_of(folder: Path, side: str) -> list[dict[str, np.ndarray]]:
    """Of a side's training and of each self-twin its losses, and what it ends with."""
    files = ResultFolder(folder)
    with read_log(files.log("train_full", side)) as log:
        runs = [{key: log[key] for key in log if is_compared(key)}]
    with read_log(files.log("train_self", side)) as log:
        twins: dict[str, dict[str, np.ndarray]] = {}
        for key in log:
            twin, _, own = key.partition("/")
            if is_compared(own):
                twins.setdefault(twin, {})[own] = log[key]
    return [*runs, *twins.values()]


def is_compared(key: str) -> bool:
    """Return whether self-twins say how far apart two runs may come in what is logged there."""
    return key in ("curve/loss", "predictions", "forecasts") or key.startswith("final/")


def parts_of(steps: int, per_epoch: int) -> list[tuple[str, np.ndarray]]:
    """(name, its steps) of each part of a training whose drift is one row.

    A part is an epoch, or as many as have PART_STEPS together; the last may be an epoch that was
    begun.  What is left over behind the last part belongs to it.
    """
    together = -(-PART_STEPS // per_epoch)
    epochs = -(-steps // per_epoch)
    firsts = list(range(0, epochs, together))
    if len(firsts) > 1 and steps - firsts[-1] * per_epoch < PART_STEPS:
        firsts.pop()
    parts = []
    for first, end in zip(firsts, [*firsts[1:], epochs], strict=True):
        name = f"epoch_{end:03d}" if end - first == 1 else f"epochs_{first + 1:03d}_to_{end:03d}"
        parts.append((name, np.arange(first * per_epoch, min(end * per_epoch, steps))))
    return parts


def drift(
    torch_loss,
    paddle_loss,
    envelope: Envelope,
    folder: Path,
    parts,
    truth=(),
    whose: str = Kind.LOSSES_FLOAT32(),
) -> list[Row]:
    """One row a part: rms over its steps of the difference of the losses.

    truth   both sides' losses of trainings in float64, where they have run
    folder  of the result, whose first steps say what float32 is off, and whether the model chooses
    """
    noise = first_noise(folder, "/loss")
    first = sidecar_of(ResultFolder(folder).log("train_first", "torch"))
    ahead = 2 if first.choices else 1
    found = [envelope[f"drift/{name}"] for name, _ in parts]
    last = parts[-1][1][-1]
    if min(torch_loss.size, paddle_loss.size) <= last:
        sizes = {"torch": torch_loss.size, "paddle": paddle_loss.size, "twins": last + 1}
        return [claim("train/drift", math.inf, 0.0, Kind.STEPS_DIFFER(**sizes))]
    rows = []
    for i, (name, steps) in enumerate(parts):
        widest = max(found[i : i + ahead], key=lambda each: each.allowed(noise))
        values = torch_loss[steps], paddle_loss[steps]
        exact = [loss[steps] for loss in truth if loss.size > last]
        what = Kind.LOSSES_OF_STEPS(losses=whose, count=steps.size)
        rows.append(judged(f"train/drift/{name}", values, exact, widest, noise, what))
    return rows


# ---- what is stored -----------------------------------------------------------------------------


def stored_file(pair: Pair, preset: str) -> Path:
    """Return the path of a built-in preset's envelope, which may not be there."""
    return STORED / f"{pair.name}-{preset}.json"


def stored(folder: Path, pair: Pair, request: RunRequest) -> tuple[Envelope | None, str]:
    """The stored envelope of a training whose first steps are in a folder, and why there is none.

    The sentence is empty where none was ever measured for such a training.
    """
    path = stored_file(pair, request.preset)
    if not pair.built_in or request.seeds > 1 or not path.is_file():
        return None, ""
    told = load_json(path)
    now = depends_on(folder, request)
    changed = [name for name in now if told["depends_on"].get(name) != now[name]]
    if changed:
        return None, Kind.ENVELOPE_OF_ANOTHER(names=changed)
    return {name: Spread(**each) for name, each in told["spreads"].items()}, ""


def depends_on(folder: Path, request: RunRequest) -> dict[str, str]:
    """All that an envelope depends on, but the processor: name -> a hash, or the value itself.

    Of a version, what stands before `+`: behind it is which devices the build knows, and `device`
    says which one computed.
    """
    names = ("seed", "dtype", "weights", "transplant", "device", "epochs", "steps", "autocast")
    asked = {name: getattr(request, name) for name in names}
    cars = {side: sidecar_of(ResultFolder(folder).log("train_first", side)) for side in SIDES}
    return {
        "options": json.dumps(asked),
        **of_the_checkout({n: of for car in cars.values() for n, of in car.sources.items()}),
        "data": str(cars["torch"].inputs_sha256),
        **{f"{side} version": public(car.framework_version) for side, car in cars.items()},
    }


def public(version: str | None) -> str:
    """Return a version without its local part: 2.13.0 of 2.13.0+cpu and 2.13.0+cu130."""
    return str(version).partition("+")[0]


def of_the_checkout(sources: Mapping[str, str]) -> dict[str, str]:
    """Hash what an envelope depends on: the pair's files, by name -> hash, and the workbench's."""
    own = {name: file_sha256(ROOT / name) for name in _TRAINING}
    return {"model": _hash(sources), "workbench": _hash(own)}


def _hash(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def first_noise(folder: Path, ends: str) -> float:
    """Mean square of what both sides' float32 is off float64, of a first step's keys ending so.

    0 where a side has no float64 run.  Both precisions were judged: it is rounding there.
    """
    total = 0.0
    for side in SIDES:
        runs = (RunKind.PLAIN, RunKind.FLOAT64)
        paths = [ResultFolder(folder).log("train_first", side, run) for run in runs]
        if not all(path.is_file() for path in paths):
            return 0.0
        with read_log(paths[0]) as float32, read_log(paths[1]) as float64:
            keys = [key for key in float32 if key.endswith(ends) and key in float64]
            off = [np.mean(np.square(float32[k].astype(np.float64) - float64[k])) for k in keys]
            total += float(np.mean(off)) if off else 0.0
    return total
