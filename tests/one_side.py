"""One side of the built-in pairs, in a process of its own, for the tests of the models.

    python tests/one_side.py torch|paddle

Reads lines `MODEL<tab>request.npz<tab>answer.npz` and says `done` after each.  The request holds
arrays: `meta` (JSON text with config, dtype, train), `sd/KEY` (weights with
torch's names and layout; none: the side's own initial ones) and `in/NAME` (inputs).  The answer
holds `keys`, `shapes` (JSON texts), `logits`, `loss`, `losses/NAME` and `grad/NAME` (torch's
layout), and `error`, the text of a ValueError from build or forward ("" for none).
"""

import importlib
import json
import sys

import numpy as np


def owner(model, key):
    """The layer that owns an entry of the state dict, found by its path."""
    for part in key.split(".")[:-1]:
        model = getattr(model, part) if hasattr(model, part) else model[int(part)]
    return model


def main(side_name):
    """Answer requests until there are no more."""
    side = importlib.import_module(f"common.{side_name}_side")
    for line in sys.stdin:
        model_name, request_path, answer_path = line.rstrip("\n").split("\t")
        models = importlib.import_module(f"common.models.{model_name}.{side_name}_model")
        answer_one(side, models, request_path, answer_path)
        print("done", flush=True)


def answer_one(side, models, request_path, answer_path):
    """Answer one request."""
    with np.load(request_path, allow_pickle=False) as file:
        request = {key: file[key] for key in file.files}
    meta = json.loads(str(request["meta"]))
    side.set_up(meta["dtype"], "cpu", 0)
    answer = {"error": ""}
    try:
        run(side, models, meta, request, answer)
    except ValueError as error:
        answer["error"] = str(error)
    np.savez(answer_path, **answer)


def run(side, models, meta, request, answer):
    """Build, load, forward, backward."""
    model = models.build(meta["config"])

    def turned(key, values):
        linear = type(owner(model, key)).__name__ == "Linear" and key.endswith(".weight")
        return values.T if linear and side.NAME == "paddle" else values

    own = side.state(model)
    answer["keys"] = json.dumps(list(own))
    answer["shapes"] = json.dumps({k: list(turned(k, v).shape) for k, v in own.items()})
    given = {key[3:]: values for key, values in request.items() if key.startswith("sd/")}
    if given:
        assert set(given) == set(own), set(given) ^ set(own)
        side.load_state(model, {key: turned(key, value) for key, value in given.items()})
    if "in/input_ids" not in request:
        return
    model.train() if meta["train"] else model.eval()
    inputs = {key[3:]: side.tensor(v) for key, v in request.items() if key.startswith("in/")}
    outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
    answer["logits"] = side.array(outputs["logits"])
    if "labels" not in inputs:
        return
    loss = models.loss(outputs, inputs)
    answer["loss"] = side.array(loss)
    for name, value in models.losses(outputs, inputs).items():
        answer[f"losses/{name}"] = side.array(value)
    loss.backward()
    for name, parameter in side.trainable(model):
        answer[f"grad/{name}"] = turned(name, side.gradient(parameter))


if __name__ == "__main__":
    main(sys.argv[1])
