"""The options of every command, each declared once; a command's parser takes those that it names.

An option that a command does not take is an error there, and not in its --help.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path


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


# Name -> what argparse is told of it; each help ends in an example.
_FLAGS: dict[str, dict] = {
    "model": {
        "action": "append",
        "metavar": "NAME|FOLDER",
        "help": "a built-in model, your pair's folder, or all (default): --model reformer",
    },
    "preset": {
        "default": "default",
        "metavar": "NAME",
        "help": "a configuration of the model's case.py: --preset enwik8",
    },
    "case": {
        "action": "append",
        "default": [],
        "metavar": "NAME",
        "help": "run this case of the preset alone; may be repeated: --case lm",
    },
    "device": {
        "choices": ("cpu", "gpu"),
        "default": "cpu",
        "help": "where both sides compute: --device gpu",
    },
    "seed": {
        "type": natural,
        "default": 0,
        "metavar": "N",
        "help": "of inputs, weights and dropout: --seed 1",
    },
    "weights": {
        "metavar": "PATH|WORD",
        "help": "a checkpoint, or trained-like or stirred: --weights checkpoints/reformer",
    },
    "out": {
        "type": Path,
        "metavar": "DIR",
        "help": "write logs to DIR/STEP/MODEL instead: --out /tmp/logs",
    },
    "train": {
        "action": "store_true",
        "help": "in train mode, with dropout from the tape: --train",
    },
    "transplant": {
        "metavar": "OP,OP…|all|smallest",
        "help": "operators that torch computes on the Paddle side, or a search for the fewest: "
        "--transplant softmax,layer_norm",
    },
    "data": {
        "type": Path,
        "metavar": "PATH",
        "help": "the file or folder to train on: --data reviews_Electronics_5.json.gz",
    },
    "tokenizer": {
        "type": Path,
        "metavar": "FILE",
        "help": "a SentencePiece model: --tokenizer spiece.model",
    },
    "epochs": {
        "type": positive,
        "metavar": "N",
        "help": "train so many, instead of the preset's number: --epochs 1",
    },
    "steps": {
        "type": positive,
        "metavar": "N",
        "help": "end the whole training after so many steps: --steps 100",
    },
    "seeds": {
        "type": positive,
        "default": 1,
        "metavar": "N",
        "help": "train each side so often, from N seeds: --seeds 5",
    },
    "resume": {
        "action": "store_true",
        "help": "go on with a training that was stopped: --resume",
    },
    "checkpoint-every": {
        "type": positive,
        "metavar": "STEPS",
        "help": "beside the one after each epoch; by default one a minute: --checkpoint-every 50",
    },
    "processes": {
        "type": several,
        "default": 2,
        "metavar": "N",
        "help": "of each side, 2 by default: --processes 4",
    },
    "reuse": {
        "choices": ("torch",),
        "help": "keep that side's logs while nothing that they need has changed: --reuse torch",
    },
    "reference": {
        "type": Path,
        "metavar": "DIR",
        "help": "torch logs that somebody else sent: --reference their_logs",
    },
    "compare-only": {
        "action": "store_true",
        "help": "judge logs that are there, run nothing: --compare-only",
    },
    "allow": {
        "action": "append",
        "choices": ("precision",),
        "default": [],
        "help": "let rows of this verdict pass: --allow precision",
    },
    "torch-python": {
        "metavar": "PATH",
        "help": "the Python that runs that side: --torch-python ~/torch-env/bin/python",
    },
    "paddle-python": {
        "metavar": "PATH",
        "help": "likewise: --paddle-python ~/paddle-env/bin/python",
    },
    "json": {
        "type": Path,
        "metavar": "FILE",
        "help": "write every row as JSON: --json rows.json",
    },
    "no-report": {
        "action": "store_true",
        "help": "leave out reprod_log's own report: --no-report",
    },
    "debug": {
        "action": "store_true",
        "help": "show tracebacks: --debug",
    },
}

# What each command takes, in the order of its --help.
OF_EVERY_CHECK = (
    *("model", "preset", "device", "seed", "weights", "out", "compare-only"),
    *("allow", "torch-python", "paddle-python", "json", "no-report", "debug"),
)
OF_TRANSPLANTS = ("reuse", "reference", "transplant")
OF_CASES = ("case", "train")  # steps 1, 3 and 4
OF_DATA = ("data", "tokenizer")  # steps 2 and 5
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


def dest(names: Sequence[str]) -> list[str]:
    """Names of options as attributes."""
    return [name.replace("-", "_") for name in names]
