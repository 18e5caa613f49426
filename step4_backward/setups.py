"""The four optimizer set-ups of step 4 and the schedules; NumPy only, shared by both sides."""

from twincheck.common.pair.case_hooks import training
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.schedules import constant, warm_up

STEPS = 10  # optimizer steps of each set-up; the guide asks for at least two


# Paddle keeps the decay in float32: 0.125 is exact there, 0.1 would be 1.5e-8 off.
SETUPS: dict[str, dict] = {
    "adam": {"kind": "adam", "lr": 1e-3, "schedule": constant},
    "adamw": {"kind": "adamw", "lr": 1e-3, "schedule": constant, "weight_decay": 0.125},
    "sgd": {"kind": "sgd", "lr": 0.05, "schedule": constant, "momentum": 0.9},
    "adam_clip_warmup": {"kind": "adam", "lr": 2e-3, "schedule": warm_up(5), "clip_norm": 0.1},
}

# Adam's, which a large model takes without being run, on given gradients (given.py).
GIVEN = ("adam", "adamw", "adam_clip_warmup")
# The one that both modes take, where they are two functions: its weights hide nothing.
IN_TRAIN_MODE = "sgd"


def setups_of(pair: Pair, config: dict, preset: str, thorough: bool) -> list[str]:
    """The set-ups whose steps a pair takes: all of a built-in model, and where `thorough`.

    Of another pair SGD, whose weights hide nothing and of which the guide's logs are, and its own
    optimizer (AdamW where case.py names none): what Adam, a clipping and a schedule make of a
    gradient does not depend on the model, and step 5 takes the pair's own first steps.

    preset  the one that steps 2 and 5 run
    Raises UserError where case.py's optimizer is none.
    """
    if pair.built_in or thorough:
        return list(SETUPS)
    named = any(hasattr(pair.case, name) for name in ("optimizer", "TRAIN"))
    own = training(pair, config, preset)["optimizer"] if named else "adamw"
    return [name for name in SETUPS if name in (own, IN_TRAIN_MODE)]
