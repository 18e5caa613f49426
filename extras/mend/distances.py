"""How far a port's float64 values are from the reference's, without an edit and with it."""

import math
from collections.abc import Collection, Mapping

import numpy as np

from twincheck.common.logs.match import likeness

NEARER = 30.0  # by this factor; what two right edits differ by is rounding
EXACT = 1e-15  # as a part of the size: nearer than this nothing comes in float64
OFF = 1e-9  # likewise: what is further away is off still
FARTHEST = 1e6  # in place of infinity


def distances(
    values: Mapping[str, np.ndarray], reference, inside: Collection[str] = ()
) -> dict[str, float]:
    """Key -> how far a value is from the reference's (rms), as a part of its size.

    Infinity where it is missing, of another shape or not finite.

    inside      keys of values inside the model, which may have their axes in another order
    """
    found = {}
    for key in reference:
        if key not in values:
            found[key] = math.inf
            continue
        ours, theirs = (np.asarray(v).astype(np.float64) for v in (values[key], reference[key]))
        if ours.shape != theirs.shape:
            alike = likeness(theirs, ours) if key in inside else None
            found[key] = alike.off if alike else math.inf
            continue
        size = float(np.sqrt(np.mean(theirs**2))) if theirs.size else 0.0
        apart = float(np.sqrt(np.mean((ours - theirs) ** 2))) if theirs.size else 0.0
        found[key] = apart / size if size else apart
        if not math.isfinite(found[key]):
            both = np.array_equal(ours, theirs, equal_nan=True)
            found[key] = 0.0 if both else math.inf
    return found


def compared(
    before: Mapping[str, float],
    now: Mapping[str, float],
    origin: str,
    allowed: Mapping[str, float],
    inside: Collection[str] = (),
) -> dict[str, float]:
    """Compare the distances with an edit, `now`, and without it, `before`.

    allowed   key -> what rounding may make of it, a part of its size, as far as the check has said:
              of a gradient that is nothing but rounding that is all of it
    inside    keys of values inside the model: where all others are right, they may be otherwise
    """
    nearer = away = 0
    digits = 0.0
    for key, was in before.items():
        least = max(EXACT, allowed.get(key, 0.0))
        was, is_now = (min(max(v, least), FARTHEST) for v in (was, now.get(key, math.inf)))
        nearer += was > NEARER * is_now
        away += is_now > NEARER * was
        digits += math.log10(was / is_now)
    at = min(now.get(origin, math.inf), FARTHEST)
    # What the port has not at all, be it as it is or edited, is no concern of an edit's.
    off = {
        key
        for key, d in now.items()
        if d > max(OFF, allowed.get(key, 0.0)) and not math.isinf(min(d, before[key]))
    }
    if origin not in off and all(key in inside for key in off):
        away, off = 0, set()
    return {"origin": at, "nearer": nearer, "away": away, "digits": digits, "off": len(off)}
