"""One side of the built-in pairs, in a process of its own, for the tests of the models.

    python tests/one_side.py torch|paddle

Reads lines `MODEL<tab>request.npz<tab>answer.npz` and says `done` after each.  The request holds
arrays: `meta` (JSON text with config, dtype, train), `sd/KEY` (weights with
torch's names and layout; none: the side's own initial ones) and `in/NAME` (inputs; NAME/0, NAME/1
are a list).  The answer holds `keys`, `shapes` (JSON texts), `logits` (or `predictions`), `loss`,
`losses/NAME` and `grad/NAME` (torch's layout), and `error`, the text of a ValueError from build or
forward ("" for none).  Where meta says `partial`, weights that are not given stay as they were
built; with `later/NAME`, which stand for inputs of eval mode behind all that, it holds `later`.
"""

import importlib
import json
import sys

import numpy as np

# torch's local names of a batch norm's averages -> Paddle's; "": Paddle has none.
AVERAGES = {"running_mean": "_mean", "running_var": "_variance", "num_batches_tracked": ""}


def owner(model, key):
    """The layer that owns an entry of the state dict, found by its path."""
    for part in key.split(".")[:-1]:
        model = getattr(model, part) if hasattr(model, part) else model[int(part)]
    return model


def main(side_name):
    """Answer requests until there are no more."""
    side = importlib.import_module(f"twincheck.common.sides.backend_{side_name}").side
    for line in sys.stdin:
        model_name, request_path, answer_path = line.rstrip("\n").split("\t")
        models = importlib.import_module(f"twincheck.common.models.{model_name}.{side_name}_model")
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
    given = part(request, "sd")
    if side.NAME == "paddle":
        for key in [key for key in given if key.rpartition(".")[2] in AVERAGES]:
            path, _, local = key.rpartition(".")
            values = given.pop(key)
            given |= {f"{path}.{AVERAGES[local]}": values} if AVERAGES[local] else {}
    if given:
        assert set(given) == set(own) or (meta.get("partial") and set(given) < set(own))
        turned_ones = {key: turned(key, value) for key, value in given.items()}
        side.load_state(model, own | turned_ones)
    inputs = tensors(side, part(request, "in"))
    if not inputs:
        return
    model.train() if meta["train"] else model.eval()
    targets = ("labels", "y")
    outputs = model(**{name: value for name, value in inputs.items() if name not in targets})
    result = "logits" if "logits" in outputs else "predictions"
    answer[result] = side.array(outputs[result])
    if not set(targets) & set(inputs):
        return
    loss = models.loss(outputs, inputs)
    answer["loss"] = side.array(loss)
    for name, value in models.losses(outputs, inputs).items():
        answer[f"losses/{name}"] = side.array(value)
    loss.backward()
    for name, parameter in side.trainable(model):
        answer[f"grad/{name}"] = turned(name, side.gradient(parameter))
    later = tensors(side, part(request, "later"))
    if later:
        model.eval()
        inputs |= later
        outputs = model(**{name: value for name, value in inputs.items() if name not in targets})
        answer["later"] = side.array(outputs[result])


def part(arrays, kind):
    """Return the arrays below a kind, by what is behind it."""
    return {key[len(kind) + 1 :]: v for key, v in arrays.items() if key.startswith(f"{kind}/")}


def tensors(side, arrays):
    """Tensors by name; NAME/0, NAME/1 are a list."""
    found = {}
    for key, values in arrays.items():
        name, _, place = key.partition("/")
        if place:
            found.setdefault(name, []).append(side.tensor(values))
        else:
            found[name] = side.tensor(values)
    return found


if __name__ == "__main__":
    main(sys.argv[1])
