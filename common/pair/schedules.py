"""Schedules of the learning rate: step number -> factor; without NumPy, the same on both sides."""

import math


def constant(step: int) -> float:
    """The factor 1 at every step."""
    return 1.0


def warm_up(steps: int):
    """A factor that rises from 1/steps to 1 over the first `steps` steps."""
    return lambda step: min(1.0, (step + 1) / steps)


SCHEDULES = ("constant", "linear", "cosine", "type1", "type2")
# Informer's second rule: the rate from after an epoch on, the epochs counted from one.
TYPE2 = {2: 5e-5, 4: 1e-5, 6: 5e-6, 8: 1e-6, 10: 5e-7, 15: 1e-7, 20: 5e-8}


def schedule(name: str, warm_up_steps: int, total_steps: int, per_epoch: int = 1, lr: float = 1.0):
    """A linear warm-up, then the factor 1, a straight line to 0 at the end, or half a cosine to 0.

    type1 and type2 are Informer's rules, which change the rate after an epoch of `per_epoch` steps:
    half of it after each but the first, and TYPE2's, whatever the first rate `lr` is.
    Raises ValueError for a name that is none of SCHEDULES.
    """
    if name in ("type1", "type2"):
        return _by_epoch(name, warm_up_steps, per_epoch, lr)
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


def _by_epoch(name: str, warm_up_steps: int, per_epoch: int, lr: float):
    rise = warm_up(max(1, warm_up_steps))

    def factor(step: int) -> float:
        ended = step // per_epoch
        if name == "type1":
            return rise(step) * 0.5 ** max(0, ended - 1)
        changes = [epoch for epoch in TYPE2 if epoch <= ended]
        return rise(step) * (TYPE2[changes[-1]] / lr if changes else 1.0)

    return factor
