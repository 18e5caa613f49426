"""Why a row is as it is, where that is known: reasons for it.

Paddle's noisy Adam, its clipped softmax, gradients whose agreement shows nothing, and where to look
for a wrong one.  Operators that are inexact in float64 have a table of their own (operators.py).
"""

import math
from collections.abc import Callable

import numpy as np

from twincheck.common.logs.draws import runs_of, side_by_side
from twincheck.common.logs.dropouts import partners
from twincheck.common.logs.key import Key, parent_of
from twincheck.common.logs.of_a_run import Logs, class_of
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import escaped
from twincheck.common.verdict.operators import adam_noise, table
from twincheck.common.verdict.row import ALL_ZERO, NOISE_ONLY, ONE_VALUE, Row

_CLIPPED_FROM = 64.0
_CLIPS = ("cross_entropy", "log_softmax", "softmax")


def explain(row: Row, key: Key, logs: Logs, clipped: Callable[[Key], bool]) -> str:
    """Return the cause of an optimizer row's PRECISION, or where to look; empty for other rows.

    clipped  whether the logits behind a loss lie farther apart than Paddle's softmax takes them
    """
    if row.verdict == "PRECISION" and "/adam" in f"/{key}" and key.is_optimizer:
        # Measured on the same gradients.
        return Kind.ADAM_IS_NOISY(times=adam_noise(), noise=table()["Adam"].value)
    if row.origin and row.verdict == "DIVERGED":
        loss = Kind.SOFTMAX_CLIPS() if clipped(key) else ""
        gradient = ""  # where to look when the gradient at a module's output is wrong
        if key.kind == "grad_of" and not key.is_input:
            parent = parent_of(key.site.partition("/")[0]) or Kind.MODEL_ITSELF()
            gradient = Kind.GRADIENT_WRONG_BEFORE(module=parent)
        causes = gradient, loss, _weight_cause(key, logs), _mask_cause(key, logs)
        return next(filter(None, causes), "")
    return ""


def clipped_logits(key: Key, logs: Logs) -> bool:
    """True for a loss whose logits lie farther apart than Paddle's softmax takes them."""
    if key.run or not _is_loss(key):
        return False
    logits = logs.get("ref64", f"{key.case}logits")
    if logits is None or logits.ndim == 0 or not np.isfinite(logits).all():
        return False
    return float(np.ptp(logits, axis=-1).max()) > _CLIPPED_FROM


def _weight_cause(key: Key, logs: Logs) -> str:
    """Which weight of a module is not the reference's: of another module's, or changed when put in.

    As the candidate's sidecar says where each comes from, and what did not come back as it was.
    """
    if key.kind or key.is_input:
        return ""
    case, module = key.case_name, key.site.partition("/")[0]
    sidecar = logs.sidecars["cand32"]
    for name in sidecar.read_back.get(case, ()):
        if parent_of(name) == module:
            return Kind.WEIGHT_CHANGED(weight=escaped(name))
    carried = sidecar.certificate.get(case, {}).get("rows", ())
    read = [{*row["torch_keys"], *row["also_in_torch"]} for row in carried]
    own = {name for name in set().union(*read) if parent_of(name) == module}
    for row, names in zip(carried, read, strict=True):
        if own and row["probe"] == module and not own & names:
            sources = escaped(", ".join(row["torch_keys"]))
            return Kind.WEIGHT_OF_ANOTHER(weight=escaped(row["paddle_key"]), sources=sources)
    return ""


def _mask_cause(key: Key, logs: Logs) -> str:
    """That a dropout drops along other axes, where it is what a row's values came through."""
    ref, cand = logs.sidecars["ref32"], logs.sidecars["cand32"]
    module, is_layer = key.site.partition("/")[0], "Dropout" in class_of(key, ref.classes)
    if is_layer or key.is_input:
        module = parent_of(module)  # whose code calls it
    label = f"{module}.dropout".removeprefix(".")
    case = key.case_name
    runs = (runs_of(sidecar.dropouts.get(case, ())) for sidecar in (ref, cand))
    for _, ours, theirs in () if key.kind else side_by_side(*runs):
        for i, k in partners(ours, theirs).items():
            torch, paddle = ours[k].shape, theirs[i].shape
            # Code of its own may have as many values laid out otherwise.
            off = is_layer or math.prod(torch) != math.prod(paddle)
            off &= [n == 1 for n in torch] != [n == 1 for n in paddle]
            if off and ours[k].site.partition("#")[0] == label:
                return Kind.DROPOUT_AXES(torch=str(list(torch)), paddle=str(list(paddle)))
    return ""


def is_clipped_loss(key: Key, logs: Logs, allowed: float) -> bool:
    """True for a loss that Paddle's float32 run clips, and its float64 run, made exact, does not.

    allowed  what its float32 noise may be
    """
    found = logs.sidecars["cand64"].inexact.items()
    here = [names for site, names in found if site.startswith(key.case)]
    clips = [off for names in here for name, off in names.items() if name in _CLIPS]
    if not _is_loss(key) or not clips:
        return False
    own, exact = (np.asarray(logs.get(run, key), np.float64) for run in ("cand32", "cand64"))
    # Clipped, a loss is too small, by no more than clipping makes of it and float32 rounds.
    less = exact - own
    clipped = (less >= 0.0) & (less <= max(clips) * np.abs(exact) + allowed)
    return bool(clipped[~(np.abs(less) <= allowed)].all())


def _is_loss(key: Key) -> bool:
    return not key.kind and (key.site == "loss" or key.site.startswith("losses/"))


def note_gradient(row: Row, ref: np.ndarray, cand: np.ndarray) -> None:
    """Name a gradient whose agreement shows nothing: all zero, constant, or noise on both sides."""
    values, others = np.asarray(ref).reshape(-1), np.asarray(cand).reshape(-1)
    if not values.any() and not others.any():
        row.shows_nothing = ALL_ZERO
        row.add(Kind.ALL_ZERO())
    elif row.noise_only:
        row.shows_nothing = NOISE_ONLY
        row.add(Kind.NOISE_ONLY())
    elif values.size > 1 and (values == values[0]).all():
        row.shows_nothing = ONE_VALUE
        row.add(Kind.ONE_VALUE())
