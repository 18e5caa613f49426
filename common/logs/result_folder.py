"""A result folder: what one step left of one model, and the names of the files in it.

Full logs carry the verdict; where the guide asks for a pair of logs their stem ends in _all:
forward_all, metric_all, loss_all, bp_align_all, train_align_all; train_first, generate, … do not.

STEM_SIDE.npy                      a log of the float32 run; beside each log its sidecar, .json
STEM_SIDE_fp64.npy                 of the float64 run
STEM_paddle_fp64_teacher_forced.npy  of a float64 run whose modules are fed torch's values
STEM_paddle_fp64_exact.npy         the same, with what Paddle computes inexactly made exact
STEM_paddle_fp64_free.npy          of a float64 run that is fed nothing, with that made exact
STEM_torch_fp64_whole.npy          of the float64 run again, all tensors whole; while it is needed
STEM_torch_fp64_noise.npy          how far rounding moves each tensor (common/logs/noise.py)
STEM_torch_fp64_rounded.npy        of a float64 run with its constants rounded to float32
STEM_paddle_again1.npy             of the float32 run repeated from a start beside its own; 2, 3
STEM_SIDE_unforced.npy             of a float32 run that goes on with its own discrete choices
STEM_SIDE_fp64_half_step.npy       of a float64 run whose modules are fed torch's half precision
STEM_paddle_half_step.npy          of a run in half precision that is fed the same
STEM_choices.npz                   the choices that all other runs go on with

Without _all the same stems name what is handed in (common/logs/guide_pair.py):

STEM_SIDE.npy                      the guide's pair: the guide's keys, selected from the full log
STEM_diff.log                      reprod_log's own report on that pair

And of no stem error_SIDE.json, why a worker failed, until the check has read it; weights and what
else the methods below name; and what other commands have left, which stays where the step runs
again.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.files import link_or_copy
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import AGAIN, EXACTLY, FED, RunKind

# Name of a log that is judged -> its side, its run, and what it is called with its side.
JUDGED = {
    "ref32": ("torch", RunKind.PLAIN, Kind.LOG_FLOAT32),
    "cand32": ("paddle", RunKind.PLAIN, Kind.LOG_FLOAT32),
    "ref64": ("torch", RunKind.FLOAT64, Kind.LOG_FLOAT64),
    "cand64": ("paddle", RunKind.FLOAT64, Kind.LOG_FLOAT64),
    "teacher_forced": ("paddle", RunKind.TEACHER_FORCED, Kind.LOG_TEACHER_FORCED),
    "exact": ("paddle", RunKind.EXACT, Kind.LOG_TEACHER_FORCED_EXACT),
    "free": ("paddle", RunKind.FREE, Kind.LOG_FREE_EXACT),
    "noise": ("torch", RunKind.NOISE, Kind.LOG_NOISE),
    "rounded": ("torch", RunKind.ROUNDED, Kind.LOG_ROUNDED),
    "step_ref64": ("torch", RunKind.HALF_STEP64, Kind.LOG_SINGLE_STEPS),
    "step_cand64": ("paddle", RunKind.HALF_STEP64, Kind.LOG_SINGLE_STEPS),
    "step_cand": ("paddle", RunKind.HALF_STEP, Kind.LOG_HALF_STEPS),
    **{run.name.lower(): ("paddle", run, Kind.LOG_REPEATED) for run in AGAIN},
}

RESULT_FILE = "result.json"  # what a check has found of a model
# What other commands have found of it: beside the logs, where a check leaves it in its place …
GENERATION_FILE, AGREEMENT_FILE = "generation.json", "agreement.json"
TRAINERS_FILE = "trainers.json"
BESIDE = (GENERATION_FILE, AGREEMENT_FILE, TRAINERS_FILE)
CERTIFICATE_FILE = "certificate.json"  # … and in the certificate's own folder

_LOG = re.compile(r"(?P<stem>.+?)_(?P<side>torch|paddle)(?P<run>(_[a-z0-9_]+)?)\.npy")

_OF_TORCH = (
    *("*_torch*.npy", "*_torch*.json", "*_choices.npz", "weights/*.npz", "weights/*.json"),
    *("constants/*.npz", "to_load/*/*/*", "gradients/*.npz", "train_torch*.log", "best_torch*/*"),
)


@dataclass(frozen=True)
class LogName:
    """The name of a log's file, taken apart."""

    stem: str  # forward_all, metric_all, loss_all, bp_align_all, train_full, …; forward, …
    side: str  # torch or paddle
    run: str = RunKind.PLAIN  # or another of the above; a name that a later version adds is kept

    @classmethod
    def parse(cls, file: str) -> "LogName | None":
        """The parts of a file's name; None where it is no log's."""
        parts = _LOG.fullmatch(file)
        return cls(**parts.groupdict()) if parts else None

    def __str__(self) -> str:
        return f"{self.stem}_{self.side}{self.run}.npy"

    @property
    def dtype(self) -> str:
        """The precision of the run."""
        return "float64" if "fp64" in self.run else "float32"

    @property
    def teacher_forced(self) -> bool:
        """True for a run whose modules are fed the reference's values."""
        return self.run in FED

    @property
    def exact(self) -> bool:
        """True for a run in which Paddle's inexact operators are made exact."""
        return self.run in EXACTLY


def _file(pattern: str) -> Callable[..., Path]:
    """Return a method that gives the path of a file, or a folder, by what its name says."""
    return lambda self, name="": self.path / pattern.format(name or "main")


@dataclass(frozen=True)
class ResultFolder:
    """Paths of the files in a result folder; nothing here says that a file is there."""

    path: Path

    def log(self, stem: str, side: str, run: str = RunKind.PLAIN) -> Path:
        """Return the path of a log of a stem, a side and a run."""
        return self.path / str(LogName(stem, side, run))

    def logs(self) -> Iterator[tuple[Path, LogName]]:
        """Every log that is there, by name."""
        for path in sorted(self.path.glob("*.npy")):
            name = LogName.parse(path.name)
            if name is not None:
                yield path, name

    def judged_logs(self, stem: str) -> dict[str, Path]:
        """The logs of a stem that are there, under the names of judge_logs's arguments."""
        paths = {name: self.log(stem, side, run) for name, (side, run, _) in JUDGED.items()}
        return {name: path for name, path in paths.items() if path.is_file()}

    # ---- files, by the name of a stem or of a case; a pair's only case may have none -------------

    choices = _file("{}_choices.npz")  # the reference's discrete choices
    diff_log = _file("{}_diff.log")  # reprod_log's own report
    weights = _file("weights/{}.npz")  # that a case starts from
    # Of the weights' constants that float32 rounds, as the float64 run has them; not there where
    # float32 rounds none.
    constants = _file("constants/{}.npz")
    to_load = _file("to_load/{}")  # what a library's own loader reads: marks, and a case's weights
    loaded = _file("loaded_paddle/{}.npz")  # where Paddle's loader puts each of their elements
    gradients = _file("gradients/{}.npz")  # that the optimizers of a large model are given (step 4)
    round_trip = _file("round_trip_{}.json")  # what that part of one has found, by libraries' files
    suited = _file("suited_torch.json")  # what the torch side has chosen to suit the model
    owners = _file("owners.json")  # who owns what, from a worker that was asked for that alone
    record = _file(RESULT_FILE)  # what the check has found, as it was said
    reference_key = _file("reference.json")  # what the torch side's logs depend on
    training_curves = _file("train_curves.png")  # step 5: the picture of both sides' curves

    def without_weights(self) -> list[str]:
        """Cases whose weights were not kept, although a model was described."""
        owners = sorted((self.path / "weights").glob("*.json"))
        return [path.stem for path in owners if not path.with_suffix(".npz").is_file()]

    def training_log(self, side: str, seed: int = 0) -> Path:
        """Step 5: what a training said; its seed is counted from --seed on."""
        return self.path / f"train_{side}{_of_seed(seed)}.log"

    def best_weights(self, side: str, seed: int = 0) -> Path:
        """Step 5: the folder of a training's best weights."""
        return self.path / f"best_{side}{_of_seed(seed)}"

    def take_over(self, target: Path) -> None:
        """Put the torch side's files into `target`: links where the system can, or copies.

        Logs are never changed in place, so that two folders may share them.
        """
        for pattern in _OF_TORCH:
            for path in self.path.glob(pattern):
                if path.is_symlink() or not path.is_file():
                    continue
                place = target / path.relative_to(self.path)
                place.parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(path, place)


def _of_seed(seed: int) -> str:
    return f"_seed_{seed}" if seed else ""
