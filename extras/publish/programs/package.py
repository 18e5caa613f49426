"""The model in Paddle: `load()` builds it from config.json and gives it this repository's weights.

from model_package import load
model = load()
"""

import json
from pathlib import Path

import paddle

from .model import build

FOLDER = Path(__file__).resolve().parent.parent
SETTINGS = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
CONFIG = SETTINGS["model"]
WEIGHTS = FOLDER / "weights" / "model_state.pdparams"


def load(weights=WEIGHTS):
    """The model of CONFIG in eval mode, with the weights of a .pdparams file.

    Raises ValueError where the file lacks an entry, has one too many, or one of another shape.
    """
    model = build(dict(CONFIG))
    load_weights(model, weights)
    model.eval()
    return model


def load_weights(model, weights):
    """Give a model the weights of a .pdparams file: all of them, or none and a ValueError."""
    stored, wanted = paddle.load(str(weights)), model.state_dict()
    problems = [f"{name} is missing" for name in wanted if name not in stored]
    problems += [f"{name} is not the model's" for name in stored if name not in wanted]
    for name in wanted:
        shapes = [list(state[name].shape) for state in (stored, wanted) if name in state]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            problems.append(f"{name} has shape {shapes[0]}, not {shapes[1]}")
    if problems:
        raise ValueError(f"{weights}: {'; '.join(problems[:5])} ({len(problems)} in all)")
    model.set_state_dict(stored)


# begin
def begin(seed=0, step=0):
    """Start the random numbers of a step anew: those of Paddle's own generator."""
    paddle.seed(seed * 1_000_003 + step)


# end
