"""Save the model as a program for inference: paddle.jit.save.

    python export.py                                   the weights of this repository
    python export.py --weights output/best.pdparams    those that train.py has written

Writes inference/model.json and inference/model.pdiparams, which infer.py runs without the model's
own code.  The program takes what the model takes of a test sample (without data: of the example),
in that shape; the number of samples is free where config.json says so.  What the model draws by
itself in eval mode, such as the rotations of a hash, is drawn once, from the seed, and stored.
Exit status: 0 done, 2 with a sentence.
"""

import argparse
import json
import sys
from pathlib import Path

import paddle
from model_package import FOLDER, SETTINGS, WEIGHTS, arrays, begin, load


class Inference(paddle.nn.Layer):
    """The model with a list of inputs and a list of outputs, as a saved program has them."""

    def __init__(self, model, names):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, inputs):
        """Tensors in the order of `names` -> the outputs in their order"""
        begin(SETTINGS["seed"])
        named = {name: inputs[i] for i, name in enumerate(self.names)}
        outputs = self.model(**arrays.arguments(named))
        return list(arrays.flat(outputs).values())


def main():
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="FILE.pdparams")
    parser.add_argument("--out", type=Path, default=FOLDER / "inference", metavar="FOLDER")
    parser.add_argument(
        "--fixed",
        action="store_true",
        default=not SETTINGS["free_batch"],
        help="for one number of samples alone",
    )
    given = parser.parse_args()
    try:
        model = load(given.weights)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    example = arrays.tensors(arrays.taken(model, arrays.samples(FOLDER)))
    begin(SETTINGS["seed"])
    with paddle.no_grad():
        names = list(arrays.flat(model(**arrays.arguments(example))))
    program = paddle.jit.to_static(
        Inference(model, list(example)), input_spec=[specs(example, given.fixed)], full_graph=True
    )
    program.eval()
    given.out.mkdir(parents=True, exist_ok=True)
    with paddle.no_grad():
        # Without the pruning an input stays one that no output depends on.
        paddle.jit.save(program, str(given.out / "model"), skip_prune_program=True)
    weights = given.weights.resolve()
    weights = weights.relative_to(FOLDER) if weights.is_relative_to(FOLDER) else weights
    told = {"inputs": list(example), "outputs": names, "weights": str(weights)}
    (given.out / "names.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    shapes = ", ".join(f"{spec.name} {list(spec.shape)}" for spec in specs(example, given.fixed))
    print(f"written: {given.out / 'model'}.json and .pdiparams; it takes {shapes}")
    return 0


def specs(example, fixed):
    """Return the program's inputs: as the example's, of any number of samples unless `fixed`."""
    samples = {v.shape[0] for v in example.values() if v.ndim}
    free = not fixed and len(samples) == 1
    return [
        paddle.static.InputSpec(
            [None, *v.shape[1:]] if free and v.ndim else list(v.shape), v.dtype, name
        )
        for name, v in example.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
