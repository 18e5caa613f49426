"""A request made ready: what all its runs and logs have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from common.pair.pairs import Case, Pair
from common.pair.request import RunRequest
from common.weights.layout import Layout
from common.weights.states import States


@dataclass(frozen=True)
class Job:
    """A request made ready: what all its runs and logs have in common.

    stem          names the logs: `loss_all` gives loss_all_torch.npy, loss_all_torch_fp64.npy, …
    cases         those to run
    first_case    the name of the preset's first case, whether it is among them or not
    folder        where the logs go
    request_file  the name of the request's file beside them
    transplant    of common/transplant/patch.py, where torch computes some of Paddle's operators
    gradients     whether a gradient can be asked for anywhere: the model or its loss asks
    exact         of common/transplant/exact.py: Paddle's operators that are inexact in float64
    may_sum       whether large tensors may be in the logs as sums alone
    per_weight    how many tensors are logged for each weight of the first case, about
    states        weights and other states that one side leaves for the other
    drawn         configurations whose models keep something that their constructor draws
    layouts       which entry goes where, of the models that there were
    dropouts      which of the reference's dropouts the candidate's are (common/sides/draws.py)
    losses        case, set-up -> the losses of its optimizer steps in the last float64 run
    modes         case -> in what the candidate's modes differ (common/sides/modes.py)
    as_built      start -> buffers that are stored as the reference's float32 model made them
    group         the processes that share the request; None: this one has all of it
    """

    side: ModuleType
    stem: str
    function: Callable
    request: RunRequest
    pair: Pair
    cases: list[Case]
    first_case: str
    folder: Path
    request_file: str
    transplant: object | None = None
    gradients: bool = False
    exact: object | None = None
    may_sum: bool = False
    per_weight: int = 0
    states: States = field(default_factory=States)
    drawn: list[dict] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    dropouts: dict = field(default_factory=dict)
    losses: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    as_built: dict[str, set[str]] = field(default_factory=dict)
    group: object | None = None
