"""A request made ready: what all its runs and logs have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.logs import entry_kinds as kinds
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.sides.side import Side
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.json_kinds import check_of
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import count_values
from twincheck.common.weights.layout import Layout
from twincheck.common.weights.states import States, load_owners


@dataclass(frozen=True)
class Job:
    """A request made ready: what all its runs and logs have in common."""

    side: Side
    stem: str  # of the logs' names: `loss_all` gives loss_all_torch.npy, loss_all_torch_fp64.npy, …
    function: Callable
    request: RunRequest
    pair: Pair
    cases: list[Case]  # those to run
    first_case: str  # the name of the preset's first case, whether it is among them or not
    folder: Path  # where the logs go
    request_file: str  # the name of the request's file beside them
    module: str = ""  # the script's dotted name, such as twincheck.step1_forward.torch.forward
    transplant: object | None = None  # extras/bits/patch.py's, where torch computes operators
    gradients: bool = False  # whether a gradient can be asked for anywhere: model or loss asks
    exact: object | None = None  # common/transplant/exact.py's: what is inexact in float64
    may_sum: bool = False  # whether large tensors may be in the logs as sums alone
    # Weights and other states that one side leaves for the other.
    states: States = field(default_factory=States)
    # Configurations whose models keep something that their constructor draws.
    drawn: list[dict] = field(default_factory=list)
    # Which entry goes where, of the models that there were.
    layouts: list[Layout] = field(default_factory=list)
    # Which of the reference's dropouts the candidate's are (common/sides/draws.py).
    dropouts: dict = field(default_factory=dict)
    # Case, set-up -> the losses of its optimizer steps in the last float64 run.
    losses: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    # Case -> in what the candidate's modes differ (common/sides/modes.py).
    modes: dict[str, str] = field(default_factory=dict)
    # Start -> buffers that are stored as the reference's float32 model made them.
    as_built: dict[str, set[str]] = field(default_factory=dict)
    dtypes: Sequence[str] = ()  # the precisions of its runs, in their order
    parts: int = 1  # how many parts of a run in one precision are told as progress
    told: dict[str, int] = field(default_factory=dict)  # precision -> the part that was told last
    group: object | None = None  # the processes that share the request; None: this one has it all

    @property
    def slot(self) -> str:
        """Return which of the two sides this is, one of SIDES, whatever framework computes it."""
        return self.request.side or self.side.NAME

    @property
    def backend(self) -> str:
        """Return the backend that computes this side, one of BACKENDS."""
        return self.request.backends[SIDES.index(self.slot)]

    @property
    def is_reference(self) -> bool:
        """True for the side that the other is checked against."""
        return self.slot == SIDES[0]

    @property
    def files(self) -> ResultFolder:
        """The folder of the logs, by what is in it."""
        return ResultFolder(self.folder)

    def values(self, case: Case) -> int:
        """Return how many values a case's weights have; 0 where none are stored."""
        stored = self.files.weights(case.start)
        return count_values(load_owners(stored)) if stored.with_suffix(".json").is_file() else 0

    def is_large(self, case: Case) -> bool:
        """True for weights so many that a log of their optimizer steps would be too large."""
        return self.values(case) > self.request.given_gradients_above


# ---- what the reference has chosen ---------------------------------------------------------------


_CHECKS = {
    name: check_of(of)
    for name, of in {
        "noise": dict[str, kinds.Noise],
        "rates": dict[str, dict[str, kinds.Factor]],
        "given_gradients": dict[str, kinds.Given],
        "modes": dict[str, str],
        "edges": dict[str, kinds.Edges],
    }.items()
}


class Unsuited(Exception):
    """The float64 run must be made again: float32 has shown that what was chosen does not suit."""


class Suited:
    """The choices of one model's run; empty where the torch side has left none."""

    def __init__(self, folder: Path, new: bool = False):
        """`new` forgets what a former run has left in the folder."""
        self._path = ResultFolder(folder).suited()
        entries = load_json(self._path) if self._path.is_file() and not new else {}
        self._chosen = {name: entries.get(name, {}) for name in _CHECKS}
        for name, fits in _CHECKS.items():
            if not fits(self._chosen[name]):
                said = {"path": str(self._path), "entry": name, "value": Kind.OTHER_VALUES()}
                raise UserError(Kind.SIDECAR_ENTRY_REFUSED(**said))
        # case -> level, because; case -> set-up -> factor, because; case -> values of its
        # parameters, set-ups; case for train mode -> why it does not run, empty where it does; case
        # of varied inputs -> the padding id, which are varied and how, what was left out and why
        self.noise, self.rates, self.given, self.modes, self.edges = self._chosen.values()
        if new:
            write_json(self._path, self._chosen)

    def choose(self, what: str, case: str, chosen: dict | str) -> None:
        """Keep what was chosen for a case, under one of the file's names."""
        self._chosen[what][case or "main"] = chosen
        write_json(self._path, self._chosen)

    def choose_rate(self, case: str, setup: str, factor: float, because: str) -> None:
        """Keep the factor on the learning rates of a set-up, and why it is not 1."""
        of_case = self.rates.get(case or "main", {})
        self.choose("rates", case, of_case | {setup: {"factor": factor, "because": because}})
