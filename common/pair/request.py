"""What one run of one side is told: a JSON file beside the logs; a worker takes its path alone.

    python -m step1_forward.torch.forward step1_forward/log/reformer/request_torch.json

runs that side again and writes its logs into the folder that the file is in; a copy of the file in
another folder writes them there (the Paddle side also reads the torch side's weights and choices
from that folder).  A check leaves the files beside its logs.

Here, since check/ writes requests and sides/ reads them, and neither may import the other.
"""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from twincheck.common.pair.option import option
from twincheck.common.pair.pairs import BOTH, EVAL, MODES
from twincheck.common.pair.task import TASKS, Save, Task, TeacherForced, Usual
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import BACKENDS, SIDES, framework_of
from twincheck.common.system.half import HALF
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.json_kinds import check_of
from twincheck.common.system.reasons import Kind

PHASES = ("first", "full", "self", "float64")  # of step 5
# What a process is started with that other scripts are asked of, too.
FIRST = "twincheck.step1_forward.{}.forward"
FROM_STDIN = "-"  # in place of requests' paths: a worker reads them line by line, each as JSON text


# What declares an option of a group (common/check/options.py).
_run, _half, _cases = (partial(option, of=group) for group in ("run", "half", "cases"))
_training = partial(option, of="training")


@dataclass(frozen=True)
class RunRequest:
    """One run of one model on one side; each field has a sentence, its own or its option's."""

    # The model: a built-in name, or the path of a pair's folder.
    model: str = ""
    preset: str = _run(
        "default",
        Kind.HELP_PRESET(),
        metavar="NAME",
    )
    device: str = _run(
        "cpu",
        Kind.HELP_DEVICE(),
        choices=("cpu", "gpu", *(f"{side}-gpu" for side in SIDES)),
    )
    candidate: str = _run(
        "paddle",
        Kind.HELP_CANDIDATE(),
        judges=True,
        choices=BACKENDS,
    )
    against: str = _run("torch", Kind.HELP_AGAINST(), judges=True, choices=BACKENDS)
    # Whose request this is, one of SIDES; empty before a side is asked.
    side: str = field(default="", metadata={"choices": ("", *SIDES)})
    seed: int = _run(0, Kind.HELP_SEED(), least=0)
    dtype: str = _half(
        "float32",
        Kind.HELP_DTYPE(),
        choices=("float32", *HALF),
    )
    autocast: bool = _half(False, Kind.HELP_AUTOCAST())
    # A word or a checkpoint's path: pairs.is_checkpoint tells which.
    weights: str | None = _run(
        None,
        Kind.HELP_WEIGHTS(),
        metavar="PATH|WORD",
    )
    # The folder that common/weights/checkpoint.py has written of that checkpoint.
    published: str | None = None
    cases: tuple[str, ...] = _cases(
        (),
        Kind.HELP_CASE(),
        name="case",
        judges=True,
        metavar="NAME",
    )
    mode: str = _cases(
        BOTH,
        Kind.HELP_MODE(),
        choices=MODES,
    )
    probes: tuple[str, ...] = _cases(
        (),
        Kind.HELP_PROBE(),
        name="probe",
        judges=True,
        metavar="NAME|PATTERN",
    )
    no_probe: bool = option(
        False,
        Kind.HELP_NO_PROBE(),
        of="probes",
        judges=True,
    )
    # The folder in which each model's data have a folder (steps 2 and 5).
    data: str | None = None
    # The kind of weights that steps 2 and 5 start from: initial or perturbed.
    data_weights: str = field(default="initial", metadata={"choices": ("initial", "perturbed")})
    # Which part of step 5 to run; step5_train/train.py says what each is.
    phase: str = field(default="first", metadata={"choices": PHASES})
    epochs: int | None = _training(None, Kind.HELP_EPOCHS(), least=1)
    steps: int | None = _training(None, Kind.HELP_STEPS(), least=1)
    seeds: int = _training(1, Kind.HELP_SEEDS(), least=1)
    # The folder of step 5's checkpoints.
    checkpoints: str | None = None
    resume: bool = _training(False, Kind.HELP_RESUME(), kept=False)
    checkpoint_every: int | None = _training(
        None,
        Kind.HELP_CHECKPOINT_EVERY(),
        kept=False,
        least=1,
        metavar="STEPS",
    )
    # It is not only step 4's: step4_backward/given.py, logs of sums.
    given_gradients_above: int = option(
        100_000,
        Kind.HELP_GIVEN_GRADIENTS(),
        of="optimizers",
        least=1,
    )
    # Of a pair that is no built-in model: step4_backward/setups.py says which else.
    thorough: bool = option(
        False,
        Kind.HELP_THOROUGH(),
        of="optimizers",
    )
    keep: str = option(
        "auto",
        Kind.HELP_KEEP(),
        of="logs",
        choices=("auto", "all", "rows"),
    )
    transplant: str | None = option(
        None,
        Kind.HELP_TRANSPLANT(),
        of="reference",
        metavar="OP,OP…|all|smallest",
    )
    # Into how many parts a batch is cut, one for each process: of step 4's parallel.py.
    processes: int = option(1, Kind.HELP_PROCESSES(), of="processes", least=2, default=2)
    # Whether Paddle's own operators are left out beside the transplanted ones.
    uncounted: bool = False
    # Whether the float64 run is left out.
    only_float32: bool = False
    # Whether the sidecar tells what twincheck certificate asks for beside the usual.
    certify: bool = False
    # The cases that a check adds for train mode run, be that another function or not.
    in_train: bool = False
    # What to do with the model.
    task: Task = Usual()
    # The folder in which large weights and other large states of this model are handed over.
    states: str | None = None
    # Whether progress is reported on standard output, for the check to show.
    progress: bool = False
    debug: bool = option(False, Kind.HELP_DEBUG(), kept=False, of="output", judges=True)

    @property
    def modes(self) -> str:
        """Return the modes to run: half precision has train mode where asked."""
        return EVAL if self.dtype in HALF and self.mode == BOTH else self.mode

    @property
    def stored_dtype(self) -> str:
        """The precision of weights and inputs in the run that is judged beside float64."""
        return "float32" if self.autocast else self.dtype

    @property
    def teacher_forced(self) -> TeacherForced | None:
        """The task where modules are fed."""
        return self.task if isinstance(self.task, TeacherForced) else None

    def of_side(self, side: str) -> "RunRequest":
        """Return the request as one side is asked it: its device is cpu or gpu."""
        return dataclasses.replace(self, side=side, device=device_of(self.device, side))

    @property
    def backends(self) -> tuple[str, str]:
        """Return the backends of the two sides, in the order of SIDES."""
        return self.against, self.candidate

    def framework(self, side: str) -> str:
        """The framework that computes a side."""
        return framework_of(self.backends[SIDES.index(side)])

    def write(self, path: Path) -> None:
        """Write the request as JSON, every field of it, into a folder that is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = dataclasses.asdict(self)
        write_json(path, entries | {"task": {"name": type(self.task).__name__, **entries["task"]}})

    @classmethod
    def read(cls, path: Path) -> "RunRequest":
        """A request from its file; raises UserError for a file that holds none."""
        return cls.of(load_json(path), path)

    @classmethod
    def of(cls, entries: Mapping[str, object], name: object) -> "RunRequest":
        """A request from its fields, where all of them are such as they may be."""
        request = _read(cls, entries, str(name))
        if not request.model and not isinstance(request.task, Save):
            raise UserError(Kind.REQUEST_WITHOUT_MODEL(path=str(name)))
        return request


def device_of(device: str, side: str) -> str:
    """Return the device that a side computes on, cpu or gpu, by what --device says."""
    return "gpu" if device in ("gpu", f"{side}-gpu") else "cpu"


def error_file(folder: Path, side: str) -> Path:
    """Return the file in a request's folder in which a side's worker that fails says why."""
    return folder / f"error_{side}.json"


def rank_folder(rank: int | str) -> str:
    """The folder of another process than the first, in its request's."""
    return f"rank_{rank}"


def _read(cls: type, entries: Mapping, path: str):
    """A request or its task from what a file says; raises UserError for what it cannot say."""
    known = {each.name: each for each in dataclasses.fields(cls)}
    kinds, values = typing.get_type_hints(cls), {}
    for name, value in entries.items():
        if name not in known:
            told = {"path": path, "name": name, "known": list(known) or [Kind.NONE()]}
            raise UserError(Kind.REQUEST_FIELD_UNKNOWN(**told))
        if kinds[name] == Task:
            task = dict(value) if isinstance(value, dict) else {}
            kind = TASKS.get(task.pop("name", None))
            allowed = "" if kind else Kind.TASK_OF_NAMES(names=list(TASKS))
            value = kind and _read(kind, task, path)
        else:
            allowed = _allowed(known[name], kinds[name], value)
        if allowed:
            told = {"where": path, "name": name, "value": repr(entries[name])[:80]}
            raise UserError(Kind.SETTING_REFUSED(**told, allowed=allowed))
        values[name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)


def _allowed(known: dataclasses.Field, kind: object, value: object) -> str:
    """Return what a field may hold where its value is something else; empty where it may."""
    if choices := known.metadata.get("choices"):
        return "" if value in choices else Kind.ONE_OF(choices=list(choices))
    if not check_of(kind)(value):
        return Kind.TEXT(text=kind.__name__ if isinstance(kind, type) else str(kind))
    least = int(known.default != 0)
    return Kind.WHOLE_NUMBER_FROM(least=least) if type(value) is int and value < least else ""
