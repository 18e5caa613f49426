"""What one run of one side is told: a JSON file beside the logs; a worker takes its path alone.

    python -m step1_forward.torch.forward step1_forward/log/reformer/request_torch.json

runs that side again and writes its logs into the folder that the file is in; a copy of the file in
another folder writes them there (the Paddle side also reads the torch side's weights and choices
from that folder).  A check leaves the files beside its logs.

Here, since check/ writes requests and sides/ reads them, and neither may import the other.
"""

import dataclasses
import types
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

PHASES = ("first", "full", "self", "shared", "alone", "float64")  # of step 5
# What a process is started with that other scripts are asked of, too.
FIRST = "twincheck.step1_forward.{}.forward"
FROM_STDIN = "-"  # in place of requests' paths: a worker reads them line by line, each as JSON text


# What declares an option of a group (common/check/options.py).
_run, _half, _cases = (partial(option, of=group) for group in ("run", "half", "cases"))
_training, _machines = partial(option, of="training"), partial(option, of="machines", kept=False)


@dataclass(frozen=True)
class RunRequest:
    """One run of one model on one side; each field has a sentence, its own or its option's."""

    # The model: a built-in name, or the path of a pair's folder.
    model: str = ""
    preset: str = _run(
        "default",
        "a configuration of the model's case.py (help lists them): --preset enwik8",
        metavar="NAME",
    )
    device: str = _run(
        "cpu",
        "where both sides compute, or one of them, the other on a CPU: --device torch-gpu",
        choices=("cpu", "gpu", *(f"{side}-gpu" for side in SIDES)),
    )
    candidate: str = _run(
        "paddle",
        "what is checked: --candidate paddle-static; --candidate torch takes candidate_model.py",
        judges=True,
        choices=BACKENDS,
    )
    against: str = _run(
        "torch", "what it is checked against: --against paddle", judges=True, choices=BACKENDS
    )
    # Whose request this is, one of SIDES; empty before a side is asked.
    side: str = field(default="", metadata={"choices": ("", *SIDES)})
    seed: int = _run(0, "of inputs, weights and dropout: --seed 1", least=0)
    dtype: str = _half(
        "float32",
        "the precision to judge; half precision by the reference's own error: --dtype bfloat16",
        choices=("float32", *HALF),
    )
    autocast: bool = _half(False, "with --dtype, each framework's own mixed precision, O1")
    # A word or a checkpoint's path: pairs.is_checkpoint tells which.
    weights: str | None = _run(
        None,
        "a checkpoint, or trained-like or perturbed: --weights checkpoints/reformer",
        metavar="PATH|WORD",
    )
    # The folder that common/weights/checkpoint.py has written of that checkpoint.
    published: str | None = None
    cases: tuple[str, ...] = _cases(
        (),
        "run this case of the preset alone (help lists them); may be repeated: --case lm",
        name="case",
        judges=True,
        metavar="NAME",
    )
    mode: str = _cases(
        BOTH,
        "eval, train (dropout from the tape) or both, the default, where they differ: --mode train",
        choices=MODES,
    )
    probes: tuple[str, ...] = _cases(
        (),
        "look at this module and all within it, and at no other; or a shell pattern of whole names,"
        " whose * goes past dots; torch's names; may be repeated: --probe 'encoder.*.norm'",
        name="probe",
        judges=True,
        metavar="NAME|PATTERN",
    )
    no_probe: bool = option(
        False,
        "look at no module's inputs and outputs, only at what decides",
        of="probes",
        judges=True,
    )
    # Weights stay in their files, and come into a part of the model while it runs.
    offload: bool = option(
        False,
        "for a model larger than memory: a block's weights, which --weights names, are in memory "
        "while it runs",
        kept=False,
        of="probes",
    )
    # The folder in which each model's data have a folder (steps 2 and 5).
    data: str | None = None
    # The kind of weights that steps 2 and 5 start from: initial or perturbed.
    data_weights: str = field(default="initial", metadata={"choices": ("initial", "perturbed")})
    # Which part of step 5 to run; step5_train/train.py says what each is.
    phase: str = field(default="first", metadata={"choices": PHASES})
    epochs: int | None = _training(
        None, "train so many, instead of the preset's number: --epochs 1", least=1
    )
    steps: int | None = _training(
        None, "end the whole training after so many steps: --steps 100", least=1
    )
    seeds: int = _training(1, "train each side so often, from N seeds: --seeds 5", least=1)
    # The folder of step 5's checkpoints.
    checkpoints: str | None = None
    resume: bool = _training(
        False, "go on with what was stopped, a training or an agreement", kept=False
    )
    checkpoint_every: int | None = _training(
        None,
        "beside those after each epoch; else one a minute: --checkpoint-every 50",
        kept=False,
        least=1,
        metavar="STEPS",
    )
    # It is not only step 4's: step4_backward/given.py, logs of sums.
    given_gradients_above: int = option(
        100_000,
        "more parameter values than that make a model large: Adam's set-ups take "
        "given gradients instead of running it; 100000 by default: --given-gradients-above 500000",
        of="optimizers",
        least=1,
    )
    # Of a pair that is no built-in model: step4_backward/setups.py says which else.
    thorough: bool = option(
        False,
        "ten steps of all four optimizers, where a pair of one's own takes SGD's and its own",
        of="optimizers",
    )
    keep: str = option(
        "auto",
        "which tensors stay whole in the logs; auto, the default, keeps a step of a model below "
        "500 MB: large tensors are judged by a sample and sums: --keep all",
        of="logs",
        choices=("auto", "all", "rows"),
    )
    transplant: str | None = option(
        None,
        "operators that torch computes on the Paddle side: --transplant softmax,gelu",
        of="reference",
        metavar="OP,OP…|all|smallest",
    )
    # Into how many parts a batch is cut, one for each process: of step 4's parallel.py, of step 5.
    processes: int = option(
        1, "of each side, 2 by default: --processes 4", of="processes", least=2, default=2
    )
    nnodes: int = _machines(
        1, "how many machines these are on, as many on each: --nnodes 2", least=1
    )
    node_rank: int = _machines(
        0, "which of them this is; 0, the first, judges: --node-rank 1", least=0
    )
    master: str | None = _machines(
        None,
        "where all find the first machine, the same on each: --master 10.0.0.1:29500",
        metavar="HOST:PORT",
    )
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
    # Where large weights and other large states of this model are handed over, in memory.
    memory: str | None = None
    # Whether progress is reported on standard output, for the check to show.
    progress: bool = False
    debug: bool = option(False, "show tracebacks", kept=False, of="output", judges=True)

    @property
    def modes(self) -> str:
        """The same; with --offload and in half precision train mode has to be asked for."""
        one = self.offload or self.dtype in HALF
        return EVAL if one and self.mode == BOTH else self.mode

    @property
    def stored_dtype(self) -> str:
        """The precision of weights and inputs in the run that is judged beside float64."""
        return "float32" if self.autocast else self.dtype

    @property
    def teacher_forced(self) -> TeacherForced | None:
        """The task where modules are fed."""
        return self.task if isinstance(self.task, TeacherForced) else None

    def of_side(self, side: str) -> "RunRequest":
        """The same as one side is asked it: its device is cpu or gpu."""
        return dataclasses.replace(self, side=side, device=device_of(self.device, side))

    @property
    def backends(self) -> tuple[str, str]:
        """What computes the two sides, in the order of SIDES."""
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
        request = _read(cls, entries, f"{name}: a request", name)
        if not request.model and not isinstance(request.task, Save):
            raise UserError(f"{name}: this request names no model")
        return request


def device_of(device: str, side: str) -> str:
    """Where a side computes, cpu or gpu, by what --device says."""
    return "gpu" if device in ("gpu", f"{side}-gpu") else "cpu"


def error_file(folder: Path, side: str) -> Path:
    """Where a worker that fails says why; its request's folder."""
    return folder / f"error_{side}.json"


def rank_folder(rank: int | str) -> str:
    """The folder of another process than the first, in its request's."""
    return f"rank_{rank}"


def _read(cls: type, entries: Mapping, what: str, path: object):
    """A request or its task from what a file says; raises UserError for what it cannot say."""
    known = {each.name: each for each in dataclasses.fields(cls)}
    kinds, values = typing.get_type_hints(cls), {}
    for name, value in entries.items():
        if name not in known:
            raise UserError(f"{what} has no field {name!r}; it has {', '.join(known) or 'none'}")
        if kinds[name] == Task and isinstance(value, dict):
            task = dict(value)
            kind = TASKS.get(task.pop("name", None))
            if kind is not None:
                values[name] = _read(kind, task, f"{path}: this task", path)
                continue
        problem = _problem(known[name], kinds[name], value)
        if problem:
            raise UserError(f"{path}: {name} is {repr(value)[:80]}; allowed: {problem}")
        values[name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)


def _problem(known: dataclasses.Field, kind: object, value: object) -> str:
    """What a field may hold, where its value is something else; empty where it is allowed."""
    if kind == Task:
        return f"a task's fields and its name, {' or '.join(TASKS)}"
    if isinstance(kind, types.UnionType):  # `str | None` and `int | None`
        if value is None:
            return ""
        kind = typing.get_args(kind)[0]
    choices = known.metadata.get("choices")
    if choices:
        return "" if value in choices else " or ".join(choices)
    if kind is int:
        least = 0 if known.default == 0 else 1
        return "" if type(value) is int and value >= least else f"a whole number from {least}"
    if kind is bool:
        return "" if type(value) is bool else "true or false"
    if kind is str:
        return "" if type(value) is str else "a text"
    texts = isinstance(value, list) and all(type(item) is str for item in value)
    return "" if texts else "a list of texts"
