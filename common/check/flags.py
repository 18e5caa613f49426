"""The options of every command, each declared once; a command's parser takes those that it names.

An option that a command does not take is an error there, and not in its --help.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from common.logs.pickle_machine import printable
from common.pair.pairs import MODES
from common.pair.request import DTYPES, KEEP, RunRequest
from common.system.words import did_you_mean


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
        "a built-in model (help lists them), a pair's folder, or all (default): --model reformer",
        action="append",
        metavar="NAME|FOLDER",
    ),
    "preset": _flag(
        "a configuration of the model's case.py (help lists them): --preset enwik8",
        default="default",
        metavar="NAME",
    ),
    "case": _flag(
        "run this case of the preset alone (help lists them); may be repeated: --case lm",
        action="append",
        default=[],
        metavar="NAME",
    ),
    "device": _flag(
        "where both sides compute: --device gpu", choices=("cpu", "gpu"), default="cpu"
    ),
    "dtype": _flag(
        "the precision to judge; half precision by the reference's own error: --dtype bfloat16",
        choices=DTYPES,
        default=RunRequest.dtype,
    ),
    "autocast": _flag(
        "with --dtype, each framework's own mixed precision, O1: --autocast",
        action="store_true",
    ),
    "seed": _flag("of inputs, weights and dropout: --seed 1", type=natural, default=0, metavar="N"),
    "weights": _flag(
        "a checkpoint, or trained-like or stirred: --weights checkpoints/reformer",
        metavar="PATH|WORD",
    ),
    "out": _flag("write logs to DIR/STEP/MODEL instead: --out /tmp/logs", type=Path, metavar="DIR"),
    "mode": _flag(
        "eval, train (dropout from the tape) or both, the default, where they differ: --mode train",
        choices=MODES,
        default=RunRequest.mode,
    ),
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
    "offload": _flag(
        "for a model larger than memory: a block's weights, which --weights names, are in memory "
        "while it runs: --offload",
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
    "resume": _flag(
        "go on with what was stopped, a training or an agreement: --resume", action="store_true"
    ),
    "checkpoint-every": _flag(
        "beside those after each epoch; else one a minute: --checkpoint-every 50",
        type=positive,
        metavar="STEPS",
    ),
    "processes": _flag(
        "of each side, 2 by default: --processes 4", type=several, default=2, metavar="N"
    ),
    "nnodes": _flag(
        "how many machines these are on, as many on each: --nnodes 2",
        type=positive,
        default=RunRequest.nnodes,
        metavar="N",
    ),
    "node-rank": _flag(
        "which of them this is; 0, the first, judges: --node-rank 1",
        type=natural,
        default=RunRequest.node_rank,
        metavar="N",
    ),
    "master": _flag(
        "where all find the first machine, the same on each: --master 10.0.0.1:29500",
        metavar="HOST:PORT",
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
        "let PRECISION or UNDECIDED pass, or NaN at the same places on both sides: --allow nan",
        action="append",
        choices=("precision", "undecided", "nan"),
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
OF_CASES = ("case", "mode", "probe")  # steps 1, 3 and 4
OF_HALF = ("dtype", "autocast")  # steps 1, 3 and 4
OF_PROBES = ("no-probe",)  # steps 1 and 4, which look inside unless told otherwise
OF_OFFLOAD = ("offload",)  # steps 1 and 4
OF_DATA = ("data", "tokenizer")  # steps 2 and 5
OF_OPTIMIZERS = ("given-gradients-above",)  # step 4
OF_MACHINES = ("nnodes", "node-rank", "master")  # step 5, which takes `processes` too
OF_TRAINING = ("epochs", "steps", "seeds", "resume", "checkpoint-every")  # step 5


# What means something where logs are judged that are there, and nothing runs.
OF_JUDGING = (
    *("model", "case", "probe", "no-probe", "out", "compare-only", "allow", "strict"),
    *("json", "no-report", "debug"),
)
HELP = "help"  # as a value: lists what the option takes
LISTED = (
    "model",
    "preset",
    "case",
    "device",
    "dtype",
    "transplant",
    "reuse",
    "keep",
    "allow",
    "mode",
)


class Parser(argparse.ArgumentParser):
    """A command's parser: its description as it is written, and options by their names.

    What it has parsed has `typed`: option -> words, as the command line gave them.
    """

    def __init__(self, description: str | None, prog: str | None = None):
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # --mode is no short --model where a check has no modes
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

    def parse_args(self, args=None, namespace=None) -> argparse.Namespace:
        """What a command line gives; `--preset help` and its like list values, and end there."""
        words = list(sys.argv[1:] if args is None else args)
        if "--mode" in self._option_string_actions:  # as it was called before
            words = ["--mode=train" if word == "--train" else word for word in words]
        asked, others = self._values_asked_for(words)
        if asked:
            from common.check.listing import show_values

            self.exit(show_values(asked, *self._known(others)))
        told = super().parse_args(words, namespace)
        told.typed = self._typed(words)
        return told

    def error(self, message: str) -> NoReturn:
        """End with one sentence on what was typed, and status 2."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            names = [word.partition("=")[0] for word in unknown.split()]
            names = [name for name in names if name.startswith("-")] or names
            taken = [option for action in self._actions for option in action.option_strings]
            elsewhere = all(name.removeprefix("--") in _FLAGS for name in names)
            said = " has no use here" if elsewhere else ": there is no such option"
            message = f"{', '.join(names)}{said}{did_you_mean(names[0], taken)}"
        self.exit(2, f"error: {printable(message)} ({self.prog} --help lists what it takes)\n")

    def _values_asked_for(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """The options whose values are asked for, and the words beside them."""
        taken = {option for action in self._actions for option in action.option_strings}
        asked, others, i = [], [], 0
        while i < len(words):
            name, _, value = words[i].partition("=")
            length = 1 if value else 2
            is_listed = name.removeprefix("--") in LISTED and name in taken
            if is_listed and (value or "".join(words[i + 1 : i + 2])) == HELP:
                asked.append(name.removeprefix("--"))
            else:
                length = 1
                others.append(words[i])
            i += length
        return asked, others

    def _known(self, words: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Sequence]]:
        """What other words give, none of which is required; and each option's choices."""
        for action in self._actions:
            action.required = False
        choices = {a.dest: a.choices for a in self._actions if a.choices}
        return super().parse_args(words), choices

    def _typed(self, words: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(option, its words) of each option that the command line gave, in the parser's order."""
        former = [(action, action.default) for action in self._actions], self._defaults
        try:
            self._defaults = {}
            for action in self._actions:
                action.default = argparse.SUPPRESS
            given = vars(super().parse_args(words))
        finally:
            self._defaults = former[1]
            for action, default in former[0]:
                action.default = default
        typed = []
        for action in self._actions:
            if action.option_strings and action.dest in given:
                option, value = action.option_strings[-1], given[action.dest]
                typed.append((option.removeprefix("--"), tuple(_words(option, action, value))))
        return tuple(typed)


def _words(option: str, action: argparse.Action, value: object) -> list[str]:
    """An option as it is typed; a value that begins with a dash goes behind a `=`."""
    if action.nargs == 0:
        return [option]
    words = []
    for text in map(str, value if isinstance(value, list) else [value]):
        words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return words
