"""What one run of one side is told: a JSON file beside the logs; a twin takes its path alone.

    python -m step1_forward.torch.forward step1_forward/log/reformer/request_torch.json

runs that side again and writes its logs into the folder that the file is in; a copy of the file in
another folder writes them there (the Paddle side also reads the torch side's weights and choices
from that folder).  A check leaves the files beside its logs.

Here, since check/ writes requests and sides/ reads them, and neither may import the other.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass
from pathlib import Path

from common.pair.pairs import BOTH, EVAL, MODES
from common.system.errors import UserError
from common.system.half import HALF
from common.system.json_file import load_json, write_json

PHASES = ("first", "full", "self", "shared", "alone")  # of step 5
DEVICES = ("cpu", "gpu")
KEEP = ("auto", "all", "rows")
DTYPES = ("float32", *HALF)
ROUND_TRIP = ("save", "read", "compare")
FROM_STDIN = "-"  # in place of requests' paths: a twin reads them line by line, each as JSON text


@dataclass(frozen=True)
class RunRequest:
    """One run of one model on one side; each field has a sentence."""

    # The model: a built-in name, or the path of a pair's folder.
    model: str = ""
    # The preset of the pair's case.py.
    preset: str = "default"
    # Where the run computes: cpu or gpu.
    device: str = "cpu"
    # The precision that is judged beside float64: float32, bfloat16 or float16.
    dtype: str = "float32"
    # Whether that half precision is each framework's own mixed one (O1): weights stay in float32.
    autocast: bool = False
    # The seed of the tape, of the inputs and of the initial weights.
    seed: int = 0
    # What the user gave as --weights: a word (trained-like, stirred) or a checkpoint's path.
    weights: str | None = None
    # The folder that common/weights/checkpoint.py has written of that checkpoint.
    published: str | None = None
    # Whether weights stay in their files, and come into a part of the model while it runs.
    offload: bool = False
    # The modes that steps 1, 3 and 4 run in, one of MODES; in train mode dropout is the tape's.
    mode: str = BOTH
    # The cases of the preset to run, by name; none means all of them.
    cases: tuple[str, ...] = ()
    # Patterns of the modules whose inputs and outputs are logged; none means all of them.
    probes: tuple[str, ...] = ()
    # Whether no module's inputs and outputs are logged.
    no_probe: bool = False
    # The folder in which each model's data have a folder (steps 2 and 5).
    data: str | None = None
    # The kind of weights that steps 2 and 5 start from: initial or stirred.
    data_weights: str = "initial"
    # Which part of step 5 to run; step5_train/train.py says what each is.
    phase: str = "first"
    # How many epochs step 5 trains, instead of the preset's number.
    epochs: int | None = None
    # How many steps the whole training of step 5 has, instead of whole epochs.
    steps: int | None = None
    # How many trainings step 5 makes, each from a seed of its own.
    seeds: int = 1
    # The folder of step 5's checkpoints.
    checkpoints: str | None = None
    # After how many steps step 5 writes a checkpoint, instead of once a minute.
    checkpoint_every: int | None = None
    # Whether step 5 goes on from the checkpoints.
    resume: bool = False
    # A model whose parameters have more values is large: step4_backward/given.py, logs of sums.
    given_gradients_above: int = 100_000
    # Into how many parts a batch is cut, one for each process: of step 4's parallel.py, of step 5.
    processes: int = 1
    # On how many machines these are, as many on each.
    nnodes: int = 1
    # The number of this one among them.
    node_rank: int = 0
    # The address at which the first machine's processes are found, HOST:PORT.
    master: str | None = None
    # The operators that torch computes on the Paddle side, as --transplant names them.
    transplant: str | None = None
    # Whether Paddle's own operators are left out beside the transplanted ones.
    uncounted: bool = False
    # Whether the float64 run is left out.
    only_float32: bool = False
    # Whether each module is fed the reference's values, in float64 alone.
    single_step: bool = False
    # A file beside the request: the only keys that are fed in such a run, and what they are fed.
    feed: str | None = None
    # The cases whose optimizer steps such a run takes; none means all that take some.
    stepping: tuple[str, ...] = ()
    # Whether nothing is fed in such a run.
    free: bool = False
    # Whether Paddle's inexact operators are computed exactly in such a run.
    exact: bool = False
    # Whether the sidecar tells what common.certificate asks for beside the usual.
    certify: bool = False
    # Whether the model is only built, and the owners of its weights written.
    describe: bool = False
    # What is asked of the model's structure, for a proposal of RENAME and convert: see or try.
    structure: str = ""
    # Which part of a round trip through the libraries' own files to run, instead of the step.
    round_trip: str | None = None
    # A file to write `weights` to in this framework's own format, without running any model.
    save: str | None = None
    # Whether torch's run on half precision values is made again, fed those that Paddle has too.
    fed_alike: bool = False
    # Whether the float64 run is made again, without optimizer steps, for a log of whole tensors.
    whole: bool = False
    # Whether the float64 run is made again and again, with float32's rounding in its operators.
    noise: bool = False
    # Whether the float32 run is repeated, from weights and inputs one unit in the last place away.
    again: bool = False
    # Which arrays stay whole in the logs: as many as a log's size allows, all, or small ones alone.
    keep: str = "auto"
    # Where large weights and other large states of this model are handed over, in memory.
    memory: str | None = None
    # Whether progress is reported on standard output, for the check to show.
    progress: bool = False
    # Whether tracebacks are printed beside the sentences.
    debug: bool = False

    @property
    def modes(self) -> str:
        """The same; with --offload and in half precision train mode has to be asked for."""
        one = self.offload or self.dtype in HALF
        return EVAL if one and self.mode == BOTH else self.mode

    @property
    def stored_dtype(self) -> str:
        """The precision of weights and inputs in the run that is judged beside float64."""
        return "float32" if self.autocast else self.dtype

    def write(self, path: Path) -> None:
        """Write the request as JSON, every field of it."""
        write_json(path, dataclasses.asdict(self))

    @classmethod
    def read(cls, path: Path) -> "RunRequest":
        """A request from its file; raises UserError for a file that holds none."""
        entries = load_json(path)
        for name, value in entries.items():
            if name not in _DEFAULTS:
                known = ", ".join(_DEFAULTS)
                raise UserError(f"{path}: a request has no field {name!r}; it has {known}")
            problem = _problem(name, value)
            if problem:
                raise UserError(f"{path}: {name} is {repr(value)[:80]}; allowed: {problem}")
        entries = {k: tuple(v) if isinstance(v, list) else v for k, v in entries.items()}
        request = cls(**entries)
        if not request.model and not request.save:
            raise UserError(f"{path}: this request names no model")
        return request


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(RunRequest)}
_TYPES = typing.get_type_hints(RunRequest)
_CHOICES = {
    "device": DEVICES,
    "dtype": DTYPES,
    "phase": PHASES,
    "data_weights": ("initial", "stirred"),
    "keep": KEEP,
    "mode": MODES,
    "structure": ("", "see", "try"),
    "round_trip": ROUND_TRIP,
}


def error_file(folder: Path, side: str) -> Path:
    """Where a twin that fails says why; its request's folder."""
    return folder / f"error_{side}.json"


def rank_folder(rank: int | str) -> str:
    """The folder of another process than the first, in its request's."""
    return f"rank_{rank}"


def _problem(name: str, value: object) -> str:
    """What a field may hold, where its value is something else; empty where it is allowed."""
    kind = _TYPES[name]
    if isinstance(kind, types.UnionType):  # `str | None` and `int | None`
        if value is None:
            return ""
        kind = typing.get_args(kind)[0]
    if name in _CHOICES:
        return "" if value in _CHOICES[name] else " or ".join(_CHOICES[name])
    if kind is int:
        least = 0 if name in ("seed", "node_rank") else 1
        return "" if type(value) is int and value >= least else f"a whole number from {least}"
    if kind is bool:
        return "" if type(value) is bool else "true or false"
    if kind is str:
        return "" if type(value) is str else "a text"
    texts = isinstance(value, list) and all(type(item) is str for item in value)
    return "" if texts else "a list of texts"
