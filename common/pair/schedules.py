"""Schedules of the learning rate: step number -> factor; without NumPy, the same on both sides."""

import math


def constant(step: int) -> float:
    """The factor 1 at every step."""
    return 1.0


def warm_up(steps: int):
    """A factor that rises from 1/steps to 1 over the first `steps` steps."""
    return lambda step: min(1.0, (step + 1) / steps)


SCHEDULES = ("constant", "linear", "cosine")


def schedule(name: str, warm_up_steps: int, total_steps: int):
    """A linear warm-up, then the factor 1, a straight line to 0 at the end, or half a cosine to 0.

    Raises ValueError for a name that is none of SCHEDULES.
    """
    if name == "constant":
        return warm_up(max(1, warm_up_steps))
    if name not in SCHEDULES:
        raise ValueError(f"schedule is {name!r}; allowed: {', '.join(SCHEDULES)}")
    falling = max(1, total_steps - warm_up_steps)

    def factor(step: int) -> float:
        if step < warm_up_steps:
            return (step + 1) / warm_up_steps
        if name == "linear":
            return max(0.0, (total_steps - step) / falling)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, (step - warm_up_steps) / falling)))

    return factor
