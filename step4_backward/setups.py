"""The four optimizer set-ups of step 4 and the schedules; NumPy only, shared by both sides."""

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
