"""Run the saved program on a few test samples, and hold its outputs against the model's own.

    python infer.py      needs what export.py has written

By paddle.inference, Paddle's engine for deployment.
Exit status: 0 the same within rounding, 1 not, 2 could not be run.
"""

import argparse
import json
import sys
from pathlib import Path

import paddle
from model_package import FOLDER, SETTINGS, arrays, begin, load
from paddle import inference


def main():
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, default=FOLDER / "inference", metavar="FOLDER")
    parser.add_argument(
        "--input", type=Path, metavar="FILE.npz", help="by default test samples, else the example"
    )
    parser.add_argument(
        "--split", action="store_true", help="also run the first sample alone, and hold it against"
    )
    given = parser.parse_args()
    try:
        told = json.loads((given.program / "names.json").read_text(encoding="utf-8"))
        stored = arrays.read(given.input) if given.input else arrays.samples(FOLDER)
        stored = {name: stored[name] for name in told["inputs"]}
        model = load(FOLDER / told["weights"])
    except (ValueError, OSError, KeyError) as error:
        print(f"error: {error}; run export.py first", file=sys.stderr)
        return 2
    batches = [stored, {k: v[:1] if v.ndim else v for k, v in stored.items()}]
    passed = all(
        [checked(model, batch, told, given.program) for batch in batches[: 1 + given.split]]
    )
    print("same as the model within rounding" if passed else "NOT the same as the model")
    return 0 if passed else 1


def checked(model, batch, told, program):
    """Return whether the engine gives the model's outputs for a batch, within rounding."""
    batch = arrays.tensors(batch)
    begin(SETTINGS["seed"])
    with paddle.no_grad():
        outputs = model(**arrays.arguments(batch))
    wanted = {name: v.numpy() for name, v in arrays.flat(outputs).items()}
    inputs, passed = [batch[name].numpy() for name in told["inputs"]], True
    outputs = dict(zip(told["outputs"], by_inference(program / "model", told, inputs), strict=True))
    for name, values in outputs.items():
        same, sentence = arrays.compared(values, wanted[name])
        passed = passed and same
        print(f"{name} {list(values.shape)}: {sentence}")
    return passed and set(outputs) == set(wanted)


def by_inference(path, told, inputs):
    """The outputs of the program as paddle.inference runs it on CPU."""
    program = path.with_suffix(".json")
    program = program if program.is_file() else path.with_suffix(".pdmodel")  # of Paddle 2
    config = inference.Config(str(program), str(path.with_suffix(".pdiparams")))
    config.disable_gpu()
    # oneDNN is on by default; Paddle 3.3.1 computes some models wrong with it: a T5's logits
    # differed by 92.
    config.disable_mkldnn()
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    values = dict(zip(told["inputs"], inputs, strict=True))
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(values[name])
    predictor.run()
    handles = [predictor.get_output_handle(name) for name in predictor.get_output_names()]
    return [handle.copy_to_cpu() for handle in handles]


if __name__ == "__main__":
    sys.exit(main())
