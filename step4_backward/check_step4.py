"""Step 4, backward: is every gradient the same, and ten steps of four optimizers?

python step4_backward/check_step4.py --model reformer
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import numpy as np

from common.check.command_line import check_main
from common.check.steps import Launch, Step
from common.logs.pickle_machine import printable
from common.logs.reader import read_log
from common.logs.result_folder import FLOAT64, ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar, sidecar_path
from common.system.errors import UserError
from common.verdict.row import Row, claim, exit_code

# Each allowance with its reason; the largest that was measured is in this folder's README.
SGD_ULPS = 4  # roundings of one weight in w - lr g, seen through a division by lr
WITNESS_LR = 0.1  # of the witness's SGD step, as in the twins
SLOPE_ALLOWED = 1e-6  # of the slope along a random direction: a central difference over 2e-5
SLOPE_NOISE = 1e-9  # of the gradient's norm, where the slope happens to be near zero
LOSS_NOISE = 4.0  # times the rounding seen in the loss, over the step
BIAS_ALLOWED = 1e-12  # of the bias gradient's absolute sum: float64 roundings


def witnesses(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """Each side's gradient against what it must do, without the other side.

    A witness that the reference does not pass either says nothing of the port: something may be
    detached on purpose, or the loss be another than a cross-entropy.  A note then says so.
    """
    rows, without = [], []
    for side in ("torch", "paddle"):
        path = ResultFolder(folder).log("bp_align_all", side, FLOAT64)
        if not path.is_file():
            continue  # a pair without a float64 path, which a note says
        sidecar = read_sidecar(path) or Sidecar()
        if side == "torch":
            without = [case for case, seen in sidecar.witness.items() if _is_no_number(seen)]
        for case, seen in sidecar.witness.items():
            rows += _of_case(case, side, seen) if case not in without else []
        with read_log(path) as log:
            for case, bias in sidecar.last_bias.items():
                prefix = "" if case == "main" and f"grad/{bias}" in log else f"{case}/"
                if bias is None:
                    continue
                key = f"{prefix}grad/{bias}"
                if key not in log:
                    name, key = sidecar_path(path).name, printable(key)
                    raise UserError(f"{name}: its last_bias names {key}, which is not in the log")
                rows.append(_bias_sum(case, side, log[key], bias))
    unfit = {
        row.key.removesuffix("torch"): row.note
        for row in rows
        if row.key.endswith(("/finite_difference/torch", "/last_bias_sum/torch"))
        and exit_code([row.verdict])
    }
    notes = [f"no witness of {case}: torch's own gradient is no number" for case in without]
    notes += [f"no witness {key.strip('/')}: in torch itself {note}" for key, note in unfit.items()]
    return [row for row in rows if row.key.rpartition("/")[0] + "/" not in unfit], notes


def _is_no_number(seen: dict) -> bool:
    """True where a gradient holds NaN or infinity: its rows say so, and a witness has no more."""
    return seen["gradient_norm"] is None


def _of_case(case: str, side: str, seen: dict) -> list[Row]:
    """One SGD step must move the weights by -lr times the gradient; so must the loss's slope."""
    seen = {key: np.nan if value is None else value for key, value in seen.items()}
    unit = 2.0**-53 * SGD_ULPS
    sgd_allowed = unit * (seen["largest_weight"] / WITNESS_LR + seen["largest_gradient"])
    rise = seen.get("finite_difference", np.nan)
    off = abs(rise - seen["directional"])
    allowed = SLOPE_ALLOWED * abs(seen["directional"]) + SLOPE_NOISE * seen["gradient_norm"]
    allowed += LOSS_NOISE * seen.get("loss_noise", 0.0) / seen.get("finite_step", 1e-5)
    rows = [
        claim(
            f"{case}/witness/sgd_step/{side}",
            seen["sgd_off"],
            sgd_allowed,
            f"after one SGD step -Δw/lr is the gradient; worst in {seen['sgd_worst']}",
        ),
        claim(
            f"{case}/witness/finite_difference/{side}",
            off,
            allowed,
            f"the loss rises by {rise:.9e} along a direction, "
            f"the gradient says {seen['directional']:.9e}",
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
        f"softmax's gradients sum to 0 over classes; {name} sums to {total:.1e} of {size:.1e}",
    )


STEP = Step(
    number=4,
    title="backward",
    script="backward",
    launches=(Launch(),),
    judged=("bp_align_all",),
    probes=True,
    guide_stem="bp_align",
    optimizers=True,
    extra=witnesses,
)

if __name__ == "__main__":
    sys.exit(check_main(STEP))
