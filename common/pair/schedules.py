"""Schedules of the learning rate: step number -> factor; NumPy-free, the same on both sides."""

import math


def constant(step: int) -> float:
    """The factor 1 at every step."""
    return 1.0


def warm_up(steps: int):
    """A factor that rises from 1/steps to 1 over the first `steps` steps."""
    return lambda step: min(1.0, (step + 1) / steps)


def warm_up_then_cosine(warm_up_steps: int, total_steps: int):
    """A linear warm-up, then half a cosine down to zero at `total_steps`."""

    def factor(step: int) -> float:
        if step < warm_up_steps:
            return (step + 1) / warm_up_steps
        done = (step - warm_up_steps) / max(1, total_steps - warm_up_steps)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))

    return factor


def warm_up_then_linear(warm_up_steps: int, total_steps: int):
    """A linear warm-up, then a straight line down to zero at `total_steps`."""

    def factor(step: int) -> float:
        if step < warm_up_steps:
            return (step + 1) / warm_up_steps
        return max(0.0, (total_steps - step) / max(1, total_steps - warm_up_steps))

    return factor


SCHEDULES = ("constant", "linear", "cosine")


def schedule(name: str, warm_up_steps: int, total_steps: int):
    """The schedule of a training set-up: constant, linear or cosine, each after a warm-up."""
    if name == "constant":
        return warm_up(max(1, warm_up_steps))
    if name == "linear":
        return warm_up_then_linear(warm_up_steps, total_steps)
    if name == "cosine":
        return warm_up_then_cosine(warm_up_steps, total_steps)
    raise ValueError(f"schedule is {name!r}; allowed: {', '.join(SCHEDULES)}")
