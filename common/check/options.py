"""What a check is asked for: what its twins are told, and what concerns the check alone."""

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from common.check.flags import (
    OF_CASES,
    OF_HALF,
    OF_JUDGING,
    OF_OFFLOAD,
    OF_OPTIMIZERS,
    OF_PROBES,
    OF_TRAINING,
)
from common.pair.pairs import WORDS
from common.pair.request import RunRequest
from common.system.errors import UserError
from common.system.half import HALF


@dataclass(frozen=True)
class CheckOptions:
    """The command line of a check."""

    run: RunRequest = RunRequest()  # what every twin is told, whichever its model
    models: tuple[str, ...] = ("all",)
    out: Path | None = None  # instead of the steps' own log folders
    data: Path | None = None  # the file or folder that data are read from
    tokenizer: Path | None = None  # a SentencePiece model
    reuse: bool = False  # keep the torch side's logs while they hold
    reference: Path | None = None  # torch logs of somebody else
    compare_only: bool = False  # judge what is there
    allow: tuple[str, ...] = ()  # failing verdicts that the user lets pass
    strict: bool = False  # what is inside a model decides too
    pythons: dict[str, str | None] = field(default_factory=dict)  # side -> the Python given for it
    report: bool = True  # ask reprod_log for its own report
    typed: tuple[tuple[str, tuple[str, ...]], ...] = ()  # option -> words, as they were typed
    judging: tuple[str, ...] = OF_JUDGING  # options that mean something with --compare-only
    shared: bool = False  # by several steps, of which one may not use all that is given

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "CheckOptions":
        """Options from a parsed command line; what its parser does not take is as by default."""
        given = vars(arguments)
        told = {f.name: given[f.name] for f in dataclasses.fields(RunRequest) if f.name in given}
        told.pop("model", None)
        own = ("out", "data", "tokenizer", "reference", "compare_only", "strict")
        told.pop("data", None)
        return cls(
            run=RunRequest(
                cases=tuple(given.get("case", ())), probes=tuple(given.get("probe", ())), **told
            ),
            models=tuple(given["model"] or ["all"]),
            reuse=bool(given.get("reuse")),
            allow=tuple(given["allow"]),
            pythons={side: given[f"{side}_python"] for side in ("torch", "paddle")},
            report=not given["no_report"],
            typed=given.get("typed", ()),
            **{name: given[name] for name in own if name in given},
        )

    def taken_by(self, flags: Sequence[str]) -> "CheckOptions":
        """The same for a step that takes these options: what it does not take is as by default."""
        own = (*OF_CASES, *OF_HALF, *OF_PROBES, *OF_OFFLOAD, *OF_TRAINING, *OF_OPTIMIZERS)
        fields = {f.name: f.default for f in dataclasses.fields(RunRequest)}
        plural = {"case": "cases", "probe": "probes"}
        names = [plural.get(name, name) for name in own if name not in flags]
        names = [name.replace("-", "_") for name in names]
        typed = tuple((n, words) for n, words in self.typed if n in flags and n != "json")
        run = replace(self.run, **{name: fields[name] for name in names})
        return replace(self, run=run, typed=typed, shared=True)

    def refuse_contradictions(self) -> None:
        """Raise UserError where two options exclude each other, or one has nothing to do."""
        given = {
            "--compare-only": self.compare_only,
            "--reuse": self.reuse,
            "--reference": self.reference is not None,
        }
        names = [name for name, is_given in given.items() if is_given]
        if len(names) > 1:
            raise UserError(f"{' and '.join(names)} exclude each other: give one of them")
        if self.reference is not None and self.pythons.get("torch"):
            raise UserError("--torch-python: with --reference no torch side runs: leave it out")
        idle = [f"--{name}" for name, _ in self.typed if name not in self.judging]
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
        if self.run.weights in (None, *WORDS):
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
