"""Layers that begin with other values than torch's, in words."""

from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.initial import CUT, Drawn, Start

RECIPE = Kind.RECIPE()


def distribution(drawn: Drawn) -> Reason:
    """Return a distribution as people say it."""
    around, scale = {"mean": drawn.mean}, {"scale": drawn.scale}
    end: str = Kind.ROW_ZERO(row=drawn.padding) if drawn.padding >= 0 else ""
    if drawn.family == "constant":
        return Kind.DRAWN_CONSTANT(**around)
    if drawn.family == "table":
        return Kind.DRAWN_FIXED()
    if drawn.family == "uniform" and drawn.mean:
        low, high = drawn.mean - drawn.scale, drawn.mean + drawn.scale
        return Kind.DRAWN_UNIFORM_FROM(low=low, high=high, end=end)
    if drawn.family == "uniform":
        return Kind.DRAWN_UNIFORM(**scale, end=end)
    if drawn.family == "other":
        return Kind.DRAWN_OTHERWISE(**around, **scale)
    end = Kind.CUT_AT(cut=CUT, end=end) if drawn.family == "truncated" else end
    if drawn.mean:
        return Kind.DRAWN_NORMAL_ABOUT(**around, **scale, end=end)
    return Kind.DRAWN_NORMAL(**scale, end=end)


def sentence(start: Start) -> Reason:
    """Return what is other in layers of one class."""
    parts = []
    for part in start.parts:
        sides = {"torch": distribution(part.torch), "paddle": distribution(part.paddle)}
        parts.append(Kind.PART_DRAWN(part=part.local, **sides))
    return Kind.LAYERS_BEGIN_OTHERWISE(layers=start.kind, parts=parts)
