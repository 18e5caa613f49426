"""One side of Informer against the reference program's arrays, in a process of its own.

    python tests/informer_side.py torch|paddle float32|float64

Prints JSON: the names that the model's state has, and how far its forecast, its loss, each of its
gradients and then its forecast in eval mode are from the reference's.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
from one_side import owner

CONFIG = {
    "model": "informer",
    "enc_in": 7,
    "dec_in": 7,
    "c_out": 7,
    "seq_len": 24,
    "label_len": 12,
    "out_len": 12,  # as the reference's constructor calls pred_len
    "factor": 2,
    "d_model": 32,
    "n_heads": 4,
    "e_layers": 2,
    "d_layers": 2,
    "d_ff": 64,
    "dropout": 0.0,
}
PADDLE_NAMES = {"running_mean": "_mean", "running_var": "_variance"}


def golden(dtype):
    """The reference's arrays by kind: sd, in, index_sample, out, grad, index_sample_eval."""
    name = "informer_timeF" + ("_f64" if dtype == "float64" else "")
    kinds = {}
    with np.load(Path(__file__).parent / "goldens" / "informer2020.npz") as file:
        for key in file.files:
            case, _, rest = key.partition("|")
            kind, _, entry = rest.partition("/")
            if case == name:
                kinds.setdefault(kind, {})[entry] = file[key]
    return kinds


def main(side_name, dtype):
    """Load, forecast, differentiate, and forecast again."""
    side = importlib.import_module(f"common.{side_name}_side")
    models = importlib.import_module(f"common.models.informer.{side_name}_model")
    side.set_up(dtype, "cpu", 0)
    arrays = golden(dtype)
    model = models.build(CONFIG)

    def turned(key, values):
        linear = type(owner(model, key)).__name__ == "Linear" and key.endswith(".weight")
        return values.T if linear and side_name == "paddle" else values

    state = side.state(model)
    names = sorted(state)
    for key, values in arrays["sd"].items():
        path, _, local = key.rpartition(".")
        if side_name == "paddle":
            key = f"{path}.{PADDLE_NAMES.get(local, local)}"
            if local == "num_batches_tracked":
                continue
        state[key] = turned(key, values)
    side.load_state(model, state)
    inputs = {key: side.tensor(values) for key, values in arrays["in"].items()}
    series = {key: value for key, value in inputs.items() if key != "y"}

    def samples(kind):
        return [side.tensor(arrays[kind][str(i)]) for i in range(len(arrays[kind]))]

    model.train()
    outputs = model(**series, index_samples=samples("index_sample"))
    loss = models.loss(outputs, inputs)
    loss.backward()
    largest = max(np.abs(values).max() for values in arrays["grad"].values())
    gradients = {}
    for name, parameter in side.trainable(model):
        expected = arrays["grad"][name]
        scale = np.abs(expected).max()
        # A bias in front of a norm or a softmax moves nothing: its gradient is noise.
        scale = largest if scale < 1e-6 * largest else scale
        off = np.abs(turned(name, side.gradient(parameter)) - expected).max()
        gradients[name] = float(off / scale)
    model.eval()
    later = model(**series, index_samples=samples("index_sample_eval"))

    def off(outputs, name):
        return float(np.abs(side.array(outputs["predictions"]) - arrays["out"][name]).max())

    answer = {
        "names": names,
        "pred": off(outputs, "pred"),
        "loss": abs(float(loss) - float(arrays["out"]["loss"])),
        "gradients": gradients,
        "pred_eval": off(later, "pred_eval"),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
