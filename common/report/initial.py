"""Layers that begin with other values than torch's, in words."""

from twincheck.common.verdict.initial import CUT, Drawn, Start

RECIPE = "torch's initial values, at the end of the port's __init__ (model is self there):"


def distribution(drawn: Drawn) -> str:
    """A distribution as people say it."""
    scale, around = f"{drawn.scale:.3g}", f"{drawn.mean:.3g}"
    end = f", row {drawn.padding} zero" if drawn.padding >= 0 else ""
    if drawn.family == "constant":
        return f"the constant {drawn.mean:g}"
    if drawn.family == "table":
        return "fixed values"
    if drawn.family == "uniform" and drawn.mean:
        low, high = drawn.mean - drawn.scale, drawn.mean + drawn.scale
        return f"uniform from {low:.3g} to {high:.3g}{end}"
    if drawn.family == "uniform":
        return f"uniform within ±{scale}{end}"
    if drawn.family == "other":
        return f"values with mean {around} and standard deviation {scale}"
    end = f", cut at {CUT:g} of these{end}" if drawn.family == "truncated" else end
    if drawn.mean:
        return f"normal with mean {around} and standard deviation {scale}{end}"
    return f"normal with standard deviation {scale}{end}"


def sentence(start: Start) -> str:
    """What is other in layers of one class."""
    parts = "; ".join(
        f"{part.local}: torch {distribution(part.torch)}, Paddle {distribution(part.paddle)}"
        for part in start.parts
    )
    return f"{start.kind} begins with other values than torch's: {parts}"
