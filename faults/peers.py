"""The default rules of two other tools, on the same logs.

    reprod_log 1.0.1   mean |a - b| at most 1e-6 for every tensor (step 5: 1.5e-3)
    PaDiff 0.3.0       compare_mode "mean": the means of each pair of tensors must agree with
                       numpy's assert_allclose(rtol=1e-7, atol=0)

Keys that one side alone has in the correct run are left out of both: a user would not log them.
A rule that fails a faulty port says something only if it passes the correct one: `make faults`
asks both about the correct logs too.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.system.errors import UserError

TOOLS = ("reprod_log", "padiff")
NO_LOGS = dict.fromkeys(TOOLS, "no logs")


def one_sided(reference: Path, candidate: Path) -> list[str]:
    """Return the keys that only one of two logs has; none where a log is not there."""
    if not (reference.is_file() and candidate.is_file()):
        return []
    with read_log(reference) as ref, read_log(candidate) as cand:
        return sorted(set(ref) ^ set(cand))


def says(
    reference: Path, candidate: Path, limit: float, ignored: Collection[str] = ()
) -> dict[str, str]:
    """Return what each tool says of two logs: "passes", "fails", or "no logs" without them.

    limit   of reprod_log's mean difference
    """
    if not (reference.is_file() and candidate.is_file()):
        return NO_LOGS
    try:
        with read_log(reference) as ref, read_log(candidate) as cand:
            keys = set(ref) - set(ignored)
            if keys != set(cand) - set(ignored):
                return dict.fromkeys(TOOLS, "fails")
            close = [_within(ref[key], cand[key], limit) for key in keys]
    except UserError:  # a log that cannot be read
        return dict.fromkeys(TOOLS, "fails")
    return {
        tool: "passes" if all(passed) else "fails"
        for tool, passed in zip(TOOLS, zip(*close, strict=True), strict=True)
    }


def _within(ref: np.ndarray, cand: np.ndarray, limit: float) -> tuple[bool, bool]:
    """Return whether a pair of tensors passes each tool's rule."""
    with np.errstate(over="ignore", invalid="ignore"):  # masks of -3e38 sum to minus infinity
        same = np.isclose(ref.mean(), cand.mean(), rtol=1e-7, atol=0, equal_nan=True)
        turned = ref.T if ref.shape != cand.shape == ref.shape[::-1] else ref
        try:
            off = np.abs(turned - cand).mean()
        except (ValueError, TypeError):  # of other shapes, or no numbers
            off = np.inf
    return not off > limit, bool(same)
