"""The options of every command, each declared once; a command's parser takes those that it names.

An option that a command does not take is an error there, and not in its --help.
"""

import argparse
from pathlib import Path

from common.pair.request import KEEP, RunRequest


def natural(text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return int(text)


def several(text: str) -> int:
    """A whole number from 2."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 2")
    return int(text)


def _flag(help_text: str, **told: object) -> dict[str, object]:
    return told | {"help": help_text}


# Name -> what argparse is told of it; each help ends in an example.
_FLAGS = {
    "model": _flag(
        "a built-in model, your pair's folder, or all (default): --model reformer",
        action="append",
        metavar="NAME|FOLDER",
    ),
    "preset": _flag(
        "a configuration of the model's case.py: --preset enwik8", default="default", metavar="NAME"
    ),
    "case": _flag(
        "run this case of the preset alone; may be repeated: --case lm",
        action="append",
        default=[],
        metavar="NAME",
    ),
    "device": _flag(
        "where both sides compute: --device gpu", choices=("cpu", "gpu"), default="cpu"
    ),
    "seed": _flag("of inputs, weights and dropout: --seed 1", type=natural, default=0, metavar="N"),
    "weights": _flag(
        "a checkpoint, or trained-like or stirred: --weights checkpoints/reformer",
        metavar="PATH|WORD",
    ),
    "out": _flag("write logs to DIR/STEP/MODEL instead: --out /tmp/logs", type=Path, metavar="DIR"),
    "train": _flag("in train mode, with dropout from the tape: --train", action="store_true"),
    "given-gradients-above": _flag(
        "more parameter values than that make a model large: three of its four optimizers take "
        "given gradients instead of running it; 100000 by default: --given-gradients-above 500000",
        type=positive,
        default=RunRequest.given_gradients_above,
        metavar="N",
    ),
    "probe": _flag(
        "look at this module and all within it, and at no other; or a shell pattern of whole names,"
        " whose * goes past dots; torch's names; may be repeated: --probe 'encoder.*.norm'",
        action="append",
        default=[],
        metavar="NAME|PATTERN",
    ),
    "no-probe": _flag(
        "look at no module's inputs and outputs, only at what decides: --no-probe",
        action="store_true",
    ),
    "transplant": _flag(
        "operators that torch computes on the Paddle side: --transplant softmax,gelu",
        metavar="OP,OP…|all|smallest",
    ),
    "data": _flag(
        "the file or folder to train on: --data reviews_Electronics_5.json.gz",
        type=Path,
        metavar="PATH",
    ),
    "tokenizer": _flag(
        "a SentencePiece model: --tokenizer spiece.model", type=Path, metavar="FILE"
    ),
    "epochs": _flag(
        "train so many, instead of the preset's number: --epochs 1", type=positive, metavar="N"
    ),
    "steps": _flag(
        "end the whole training after so many steps: --steps 100", type=positive, metavar="N"
    ),
    "seeds": _flag(
        "train each side so often, from N seeds: --seeds 5", type=positive, default=1, metavar="N"
    ),
    "resume": _flag("go on with a training that was stopped: --resume", action="store_true"),
    "checkpoint-every": _flag(
        "beside those after each epoch; else one a minute: --checkpoint-every 50",
        type=positive,
        metavar="STEPS",
    ),
    "processes": _flag(
        "of each side, 2 by default: --processes 4", type=several, default=2, metavar="N"
    ),
    "reuse": _flag(
        "keep that side's logs while nothing that they need has changed: --reuse torch",
        choices=("torch",),
    ),
    "reference": _flag(
        "torch logs that somebody else sent: --reference their_logs", type=Path, metavar="DIR"
    ),
    "keep": _flag(
        "which tensors stay whole in the logs; auto, the default, keeps a step of a model below "
        "500 MB: large tensors are judged by a sample and sums: --keep all",
        choices=KEEP,
        default=RunRequest.keep,
    ),
    "compare-only": _flag(
        "judge logs that are there, run nothing: --compare-only", action="store_true"
    ),
    "allow": _flag(
        "let PRECISION pass, or NaN at the same places on both sides: --allow nan",
        action="append",
        choices=("precision", "nan"),
        default=[],
    ),
    "strict": _flag(
        "values inside a model decide too, not only what it gives: --strict", action="store_true"
    ),
    "torch-python": _flag(
        "the Python that runs that side: --torch-python ~/torch-env/bin/python", metavar="PATH"
    ),
    "paddle-python": _flag("likewise: --paddle-python ~/paddle-env/bin/python", metavar="PATH"),
    "json": _flag("write every row as JSON: --json rows.json", type=Path, metavar="FILE"),
    "no-report": _flag(
        "leave out reprod_log's own report and the page report.html: --no-report",
        action="store_true",
    ),
    "debug": _flag("show tracebacks: --debug", action="store_true"),
}

# What each command takes, in the order of its --help.
OF_EVERY_CHECK = (
    *("model", "preset", "device", "seed", "weights", "out", "keep", "compare-only"),
    *("allow", "strict", "torch-python", "paddle-python", "json", "no-report", "debug"),
)
OF_TRANSPLANTS = ("reuse", "reference", "transplant")
OF_CASES = ("case", "train", "probe", "no-probe")  # steps 1, 3 and 4
OF_DATA = ("data", "tokenizer")  # steps 2 and 5
OF_OPTIMIZERS = ("given-gradients-above",)  # step 4
OF_TRAINING = ("epochs", "steps", "seeds", "resume", "checkpoint-every")  # step 5


class Parser(argparse.ArgumentParser):
    """A command's parser: its description as it is written, and options by their names."""

    def __init__(self, description: str | None, prog: str | None = None):
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def take(self, *names: str) -> "Parser":
        """Take options of the table."""
        for name in names:
            self.add_argument(f"--{name}", **_FLAGS[name])
        return self

    def take_other(self, name: str, **other: object) -> "Parser":
        """Take an option of the table, in a meaning that differs in what is given."""
        self.add_argument(f"--{name}", **_FLAGS[name] | other)
        return self
