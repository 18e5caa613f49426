"""Score the model on the test data.

    python eval.py                                        the weights of this repository
    python eval.py --weights output/best.pdparams         those that train.py has written

Exit status: 0 done, 2 with a sentence.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import paddle
from model_package import CONFIG, FOLDER, SETTINGS, WEIGHTS, arrays, begin, load, metrics


def main():
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="FILE.pdparams")
    parser.add_argument("--data", type=Path, default=FOLDER / "data/test.npz", metavar="FILE.npz")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    given = parser.parse_args()
    paddle.set_device(given.device)
    try:
        model, samples = load(given.weights), arrays.read(given.data)
        scores = evaluate(model, samples)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    count = len(next(iter(samples.values())))
    print(f"samples: {count}, " + ", ".join(f"{k}: {v:.6f}" for k, v in scores.items()))
    return 0


def evaluate(model, samples):
    """Name -> score of a model in eval mode over all samples, name -> array (N, ...)."""
    model.eval()
    size = SETTINGS["train"]["batch_size"]
    outputs, count = [], len(next(iter(samples.values())))
    for number, first in enumerate(range(0, count, size)):
        batch = {name: values[first : first + size] for name, values in samples.items()}
        begin(SETTINGS["seed"], number)
        with paddle.no_grad():
            found = arrays.flat(model(**arrays.tensors(arrays.taken(model, batch))))
        rows = len(next(iter(batch.values())))
        outputs.append({k: v.numpy() for k, v in found.items() if list(v.shape[:1]) == [rows]})
    kept = {name: np.concatenate([part[name] for part in outputs]) for name in outputs[0]}
    samples = {k: v.astype(np.int64) if v.dtype.kind in "iu" else v for k, v in samples.items()}
    return metrics.score(CONFIG, kept, samples)


if __name__ == "__main__":
    sys.exit(main())
