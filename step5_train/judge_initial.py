"""Are the initial weights drawn from the same distributions?  Parameter by parameter, step 5.

Both sides build the model under several seeds, each with its own framework's initialisers
(step5_train/initial.py).  The values can never be equal; their distributions must be: what is a
constant on one side is the same constant on the other, and what is drawn passes a two-sample test
(Kolmogorov and Smirnov; SciPy's).
"""

import warnings
from collections.abc import Mapping

import numpy as np

from twincheck.common.verdict.row import Row, claim

LEVEL = 1e-4  # probability that a right port is called wrong, over all its parameters together
# A constant that a framework computes, such as a table of sines, may round elsewhere.
CONSTANT_ALLOWED = 1e-6
EXACT_UP_TO = 500  # values; for more, the test's limit distribution is as good, and fast


def judge_initial(
    torch_log: Mapping[str, np.ndarray], paddle_log: Mapping[str, np.ndarray]
) -> list[Row]:
    """One row `init/NAME` for each parameter of either side."""
    names = [
        key.removesuffix(":values")
        for key in dict.fromkeys([*torch_log, *paddle_log])
        if key.endswith(":values")
    ]
    return [_judge_one(name, torch_log, paddle_log, LEVEL / len(names)) for name in names]


def _judge_one(name: str, torch_log, paddle_log, level: float) -> Row:
    logs = {"torch": torch_log, "paddle": paddle_log}
    key = f"init/{name}"
    for side, log in logs.items():
        if f"{name}:values" not in log:
            return Row(key, "INVALID", note=f"missing on the {side} side", origin=True)
    values = [log[f"{name}:values"].astype(np.float64) for log in logs.values()]
    constant = [log[f"{name}:constant"].astype(bool) for log in logs.values()]
    rows = [log[f"{name}:rows"] for log in logs.values()]
    spreads = ", ".join(
        f"{side} std {v.std():.4g} mean {v.mean():.2g}{' (constant)' if c.all() else ''}"
        for side, v, c in zip(logs, values, constant, strict=True)
    )
    if values[0].shape != values[1].shape or constant[0].shape != constant[1].shape:
        return Row(key, "INVALID", note=f"other shapes: {spreads}", origin=True)
    if not all(np.isfinite(v).all() for v in values):
        return Row(key, "INVALID", note=f"NaN or infinite: {spreads}", origin=True)
    columns = [log.get(f"{name}:columns", np.zeros(0)) for log in logs.values()]
    for word, (ours, theirs) in (("row", constant), ("column", columns)):
        wrong = np.flatnonzero(ours != theirs) if ours.shape == theirs.shape else np.zeros(0)
        if wrong.size:
            more = f" and {wrong.size - 1} more" if wrong.size > 1 else ""
            which = "all of it" if wrong.size == ours.size else f"{word} {wrong[0]}{more}"
            fixed = "torch" if ours[wrong[0]] else "paddle"
            note = f"{which} is a constant on the {fixed} side alone: {spreads}"
            return claim(key, float(wrong.size), 0.0, note)
    off = np.abs(rows[0] - rows[1])[constant[0]].max(initial=0.0)
    allowed = CONSTANT_ALLOWED * float(np.abs(values[0]).max())
    if constant[0].all():
        return claim(key, max(off, float(np.abs(values[0] - values[1]).max())), allowed, spreads)
    if not off <= allowed:
        return claim(key, off, allowed, f"in its constant rows: {spreads}")
    p = same_distribution(values[0].reshape(-1), values[1].reshape(-1))
    note = f"{spreads}; p = {p:.1e} over {values[0].size} values of each side, level {level:.0e}"
    return claim(key, level / max(p, 1e-300), 1.0, note)


def same_distribution(a: np.ndarray, b: np.ndarray) -> float:
    """p-value of the two-sample Kolmogorov-Smirnov test; two flat arrays of values."""
    from scipy.stats import ks_2samp

    method = "exact" if max(a.size, b.size) <= EXACT_UP_TO else "asymp"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # exact may fall back to asymp, and says so
        return float(ks_2samp(a, b, method=method).pvalue)
