"""What a check is asked for: what its workers are told, and what concerns the check alone."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from common.pair.option import Option, option, options_of
from common.pair.pairs import is_checkpoint
from common.pair.request import RunRequest
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.system.half import HALF

# Groups of options that some steps do not take.
_OF_STEPS = ("cases", "half", "probes", "training", "optimizers")


# What declares an option of a group (flags.py).
_judging, _output = (partial(option, of=group, judges=True) for group in ("judging", "output"))
_pythons, _reference = partial(option, of="pythons"), partial(option, of="reference")
_data = partial(option, of="data")


@dataclass(frozen=True)
class CheckOptions:
    """The command line of a check."""

    run: RunRequest = RunRequest()  # what every worker is told, whichever its model
    models: tuple[str, ...] = option(
        ("all",),
        "a built-in model (help lists them), a pair's folder, or all (default): --model reformer",
        of="run",
        name="model",
        judges=True,
        default=None,
        metavar="NAME|FOLDER",
    )
    out: Path | None = option(
        None,
        "write logs to DIR/STEP/MODEL instead: --out /tmp/logs",
        of="logs",
        judges=True,
        metavar="DIR",
    )
    compare_only: bool = _judging(False, "judge logs that are there, run nothing: --compare-only")
    allow: tuple[str, ...] = _judging(
        (),
        "let PRECISION or UNDECIDED pass, or NaN at the same places on both sides: --allow nan",
        choices=("precision", "undecided", "nan"),
    )
    strict: bool = _judging(
        False, "values inside a model decide too, not only what it gives: --strict"
    )
    torch_python: str | None = _pythons(
        None,
        "the Python that runs that side: --torch-python ~/torch-env/bin/python",
        metavar="PATH",
    )
    paddle_python: str | None = _pythons(
        None, "likewise: --paddle-python ~/paddle-env/bin/python", metavar="PATH"
    )
    json: Path | None = _output(None, "write every row as JSON: --json rows.json", metavar="FILE")
    no_report: bool = _output(
        False, "leave out reprod_log's own report and the page report.html: --no-report"
    )
    reuse: str | None = _reference(
        None,
        "keep that side's logs while nothing that they need has changed: --reuse torch",
        choices=("torch",),
    )
    reference: Path | None = _reference(
        None, "torch logs that somebody else sent: --reference their_logs", metavar="DIR"
    )
    data: Path | None = _data(
        None, "the file or folder to train on: --data reviews_Electronics_5.json.gz", metavar="PATH"
    )
    tokenizer: Path | None = _data(
        None, "a SentencePiece model: --tokenizer spiece.model", metavar="FILE"
    )
    typed: tuple[tuple[str, tuple[str, ...]], ...] = ()  # option -> words, as they were typed
    judging: tuple[str, ...] = ()  # further options that mean something with --compare-only
    shared: bool = False  # by several steps, of which one may not use all that is given

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "CheckOptions":
        """Options from a parsed command line; what its parser does not take is as by default."""

        def given(declared: type) -> dict[str, object]:
            options = options_of(declared).items()
            values = {n: getattr(arguments, o.name.replace("-", "_"), None) for n, o in options}
            told = {name: value for name, value in values.items() if value not in (None, [])}
            return {n: tuple(v) if isinstance(v, list) else v for n, v in told.items()}

        typed = getattr(arguments, "typed", ())
        return cls(run=RunRequest(**given(RunRequest)), typed=typed, **given(cls))

    @property
    def pythons(self) -> dict[str, str | None]:
        """Side -> the Python that was given for it."""
        return {side: getattr(self, f"{side}_python") for side in SIDES}

    def taken_by(self, names: Sequence[str]) -> "CheckOptions":
        """The same for a step that takes these options: what it does not take is as by default."""
        options = options_of(RunRequest).items()
        left = [dest for dest, one in options if one.of in _OF_STEPS and one.name not in names]
        run = replace(self.run, **{dest: getattr(RunRequest, dest) for dest in left})
        typed = tuple((n, words) for n, words in self.typed if n in names and n != "json")
        return replace(self, run=run, typed=typed, shared=True)

    def refuse_contradictions(self) -> None:
        """Raise UserError where two options exclude each other, or one has nothing to do."""
        given = ("compare_only", "reuse", "reference")
        names = [f"--{name.replace('_', '-')}" for name in given if getattr(self, name)]
        if len(names) > 1:
            raise UserError(f"{' and '.join(names)} exclude each other: give one of them")
        if self.reference is not None and self.pythons.get("torch"):
            raise UserError("--torch-python: with --reference no torch side runs: leave it out")
        judging = {name for name, one in OPTIONS.items() if one.judges} | set(self.judging)
        idle = [f"--{name}" for name, _ in self.typed if name not in judging]
        if self.compare_only and idle:
            raise UserError(
                f"--compare-only judges logs as they are and runs nothing: leave out "
                f"{', '.join(idle)}"
            )
        if self.run.autocast and self.run.dtype not in HALF:
            raise UserError(f"--autocast lowers what to? Give --dtype {' or '.join(HALF)} too")
        if self.run.probes and self.run.no_probe:
            raise UserError("--probe and --no-probe exclude each other: give one of them")
        self.refuse_with_offload()

    def refuse_with_offload(self) -> None:
        """Raise UserError for what --offload cannot be given with, or needs and has not."""
        if not self.run.offload:
            return
        if not is_checkpoint(self.run.weights):
            raise UserError(
                "--offload maps a file of weights: give it as --weights model.safetensors, or its "
                "folder, which may hold shards"
            )
        excluded = {
            "--reuse": self.reuse,
            "--reference": self.reference is not None,
            "--device gpu": self.run.device == "gpu",
            f"--dtype {self.run.dtype}": self.run.dtype in HALF,
        }
        for name in (name for name, is_given in excluded.items() if is_given):
            raise UserError(
                f"--offload and {name} exclude each other: both sides run here, on a CPU, in "
                "float64 and float32"
            )


# Name -> the option, each declared once: the check's own, then those of what a side is asked.
OPTIONS: dict[str, Option] = {
    one.name: one
    for declared in (CheckOptions, RunRequest)
    for one in options_of(declared).values()
}
