"""Witnesses: each side's gradients against what they must do, without the other side."""

from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of, sidecar_path
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.system.words import printable
from twincheck.common.verdict.row import Row, claim, exit_code
from twincheck.step4_backward.setups import SETUPS

# Each allowance with its reason; the largest that was measured is in this folder's README.
SGD_ULPS = 4  # roundings of one weight in w - lr g, seen through a division by lr
WITNESS_LR = 0.1  # of the witness's SGD step, as in the workers
SLOPE_ALLOWED = 1e-6  # of the slope along a random direction: a central difference over 2e-5
SLOPE_NOISE = 1e-9  # of the gradient's norm, where the slope happens to be near zero
LOSS_NOISE = 4.0  # times the rounding seen in the loss, over the step
BIAS_ALLOWED = 1e-12  # of the bias gradient's absolute sum: float64 roundings


def witnesses(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """Each side's gradient against what it must do, without the other side.

    A witness that the reference does not pass either says nothing of the port: something may be
    detached on purpose, or the loss be another than a cross-entropy.  Nor does one that both sides'
    gradients are off by alike.  A note then says so.
    """
    found: dict[str, dict[str, dict]] = {}  # case -> side -> what was seen; what is no number: NaN
    rows, biases, taken = [], [], []
    for side in SIDES:
        path = ResultFolder(folder).log("bp_align_all", side, RunKind.FLOAT64)
        if not path.is_file():
            continue  # a pair without a float64 path, which a note says
        sidecar = sidecar_of(path)
        for case, seen in sidecar.witness.items():
            numbers = {key: np.nan if value is None else value for key, value in seen.items()}
            found.setdefault(case, {})[side] = numbers
        with read_log(path) as log:
            rates = {key.split("/")[-3] for key in log if key.endswith("/000/lr")}
            taken = [setup for setup in SETUPS if setup in rates]
            for case, bias in sidecar.last_bias.items():
                prefix = "" if case == "main" and f"grad/{bias}" in log else f"{case}/"
                if bias is None:
                    continue
                key = f"{prefix}grad/{bias}"
                if key not in log:
                    name, key = sidecar_path(path).name, printable(key)
                    raise UserError(Kind.WITNESS_NAMES_NOTHING(file=name, key=key))
                biases.append(_bias_sum(case, side, log[key], bias))
    unfit, alike = {}, {}
    for case, of in found.items():
        if "torch" in of and np.isnan(of["torch"]["gradient_norm"]):
            unfit[Kind.WITNESS_OF_CASE(case=case)] = Kind.WITNESS_NOT_FINITE()
            continue
        # What rounding does to either side's loss is luck: the larger counts.
        noise = LOSS_NOISE * np.fmax.reduce(
            [s.get("loss_noise", 0.0) / s.get("finite_step", 1e-5) for s in of.values()]
        )
        rows += [row for side, seen in of.items() for row in _of_case(case, side, seen, noise)]
        if len(of) == len(SIDES):
            alike[f"{case}/witness/finite_difference"] = abs(np.subtract(*map(_off, of.values())))
    rows += biases
    for row in rows:
        key, _, side = row.key.rpartition("/")
        if key.endswith("/sgd_step") or not exit_code([row.verdict]):
            continue
        if alike.get(key, np.inf) <= row.allowed:
            unfit[key] = Kind.WITNESS_ALIKE(gap=row.gap)
        elif side == "torch":
            unfit.setdefault(key, Kind.WITNESS_IN_TORCH(reasons=list(row.reasons)))
    notes = [Kind.WITNESS_LEFT_OUT(key=key, why=why) for key, why in unfit.items()]
    if taken and len(taken) < len(SETUPS):
        notes.append(Kind.OPTIMIZERS_TAKEN(taken=taken, count=len(SETUPS)))
    return [row for row in rows if row.key.rpartition("/")[0] not in unfit], notes


def _off(seen: dict) -> float:
    """By how much more than its gradient says a side's loss rises along a direction."""
    return seen.get("finite_difference", np.nan) - seen["directional"]


def _of_case(case: str, side: str, seen: dict, noise: float) -> list[Row]:
    """One SGD step must move the weights by -lr times the gradient; so must the loss's slope."""
    unit, rise = 2.0**-53 * SGD_ULPS, seen.get("finite_difference", np.nan)
    sgd_allowed = unit * (seen["largest_weight"] / WITNESS_LR + seen["largest_gradient"])
    allowed = SLOPE_ALLOWED * abs(seen["directional"]) + SLOPE_NOISE * seen["gradient_norm"]
    rows = [
        claim(
            f"{case}/witness/sgd_step/{side}",
            seen["sgd_off"],
            sgd_allowed,
            Kind.WITNESS_SGD(name=seen["sgd_worst"]),
        ),
        claim(
            f"{case}/witness/finite_difference/{side}",
            abs(_off(seen)),
            allowed + noise,
            Kind.WITNESS_SLOPE(rise=rise, said=seen["directional"]),
        ),
    ]
    return rows[:1] if seen.get("half") else rows


def _bias_sum(case: str, side: str, gradient: np.ndarray, name: str) -> Row:
    """Under mean cross-entropy the last bias's gradient sums to 0 over the classes."""
    total, size = abs(float(gradient.sum())), float(np.abs(gradient).sum())
    return claim(
        f"{case}/witness/last_bias_sum/{side}",
        total,
        BIAS_ALLOWED * size,
        Kind.WITNESS_BIAS(name=name, total=total, size=size),
    )
