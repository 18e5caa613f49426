"""Run the model on inputs from a file and show what it gives.

    python predict.py                                      the example, example/inputs.npz
    python predict.py --input my.npz --output outputs.npz  other inputs, all outputs into a file

An input file is an .npz with the arrays that forward takes, under their names;
parts/0 and parts/1 are the two of a list called parts.
Without --input the outputs are held against example/outputs.npz.
Exit status: 0 done, 1 the example's outputs differ by more than rounding, 2 with a sentence.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import paddle
from model_package import FOLDER, SETTINGS, WEIGHTS, arrays, begin, load

EXAMPLE = FOLDER / "example"


def main():
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", type=Path, metavar="FILE.npz", help="by default the example")
    parser.add_argument("--output", type=Path, metavar="FILE.npz", help="write all outputs here")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="FILE.pdparams")
    seed = SETTINGS["seed"]
    parser.add_argument("--seed", type=int, default=seed, help="of what the model draws")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    given = parser.parse_args()
    try:
        path = given.input or EXAMPLE / "inputs.npz"
        outputs = predict(path, given.weights, given.seed, given.device)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, values in outputs.items():
        print(f"{name} {list(values.shape)} {values.dtype}")
        if name == "logits":
            print("  largest at:", np.array2string(values.argmax(-1), threshold=40))
        else:
            print(" ", np.array2string(values, threshold=8, edgeitems=2).replace("\n", "\n  "))
    if given.output:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        np.savez(given.output, **outputs)
        print(f"written: {given.output}")
    stored = EXAMPLE / "outputs.npz"
    return 0 if given.input or not stored.is_file() else compare(outputs, arrays.read(stored))


def compare(outputs, stored):
    """Say how far outputs are from those that the repository holds; 1 for more than rounding."""
    status = 0
    for name, values in outputs.items():
        same, told = arrays.compared(values, stored[name])
        print(f"example/outputs.npz: {name}: {told}")
        status = status if same else 1
    return status


def predict(path, weights=WEIGHTS, seed=0, device="cpu"):
    """Name -> array of the model's outputs for the inputs in an .npz file."""
    paddle.set_device(device)
    model = load(weights)
    inputs = arrays.taken(model, arrays.read(path))
    if not inputs:
        raise ValueError(f"{path}: it holds none of the arrays that the model takes")
    begin(seed)
    with paddle.no_grad():
        outputs = model(**arrays.arguments(arrays.tensors(inputs)))
    return {name: values.numpy() for name, values in arrays.flat(outputs).items()}


if __name__ == "__main__":
    sys.exit(main())
