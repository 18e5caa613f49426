"""What a side is asked to do with a model: its step's runs, or one of the further things.

A request (request.py) has one of these as its `task`; in its file it has its name as `name`.
"""

import re
from dataclasses import dataclass, field
from typing import get_args

from twincheck.common.system.run_kind import RunKind

ROUND_TRIP = ("save", "read", "compare")
SEE, TRY = "see", "try"


@dataclass(frozen=True)
class Usual:
    """The step's script in every precision; what a check asks for first."""


@dataclass(frozen=True)
class TeacherForced:
    """The float64 run once more, in which each module is fed the reference's values."""

    # A file beside the request: the only keys that are fed, and what they are fed.
    feed: str | None = None
    # Whether nothing is fed.
    free: bool = False
    # Whether Paddle's inexact operators are computed exactly.
    exact: bool = False
    # The cases whose optimizer steps are taken; none means all that take some.
    stepping: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForcedAlike:
    """Torch's run on half precision values once more, fed those that Paddle has too."""


@dataclass(frozen=True)
class Whole:
    """The float64 run once more, without optimizer steps, for a log of whole tensors."""


@dataclass(frozen=True)
class Noise:
    """The float64 run again and again, with float32's rounding in its operators."""

    # The optimizer's set-ups whose steps are taken too.
    setups: tuple[str, ...] = ()
    # Whether it is the runs that are left after the first of each size.
    further: bool = False


@dataclass(frozen=True)
class Again:
    """The float32 run again, from weights and inputs one unit in the last place away."""

    setups: tuple[str, ...] = ()  # as `Noise` has them
    further: bool = False  # whether it is the runs that are left after the first


@dataclass(frozen=True)
class Traced:
    """The float64 run once more, in which every operator's call is kept: Paddle's fed as above."""

    # The modules whose code is looked at, with all inside them, by torch's names; "" is the model.
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Describe:
    """The model only built, and the owners of its weights written."""


@dataclass(frozen=True)
class Inspect:
    """The task of showing the model's structure, for a proposal of RENAME and convert."""

    ask: str = field(default=SEE, metadata={"choices": (SEE, TRY)})


@dataclass(frozen=True)
class RoundTrip:
    """A part of the round trip through the libraries' own files."""

    part: str = field(default=ROUND_TRIP[0], metadata={"choices": ROUND_TRIP})


@dataclass(frozen=True)
class Save:
    """The request's weights written to a file in this framework's own format; no model runs."""

    path: str = ""


_Logged = Usual | TeacherForced | ForcedAlike | Whole | Traced | Noise | Again
Task = _Logged | Describe | Inspect | RoundTrip | Save


def label(task: Task) -> str:
    """A task's name as that of its request's file ends."""
    if isinstance(task, TeacherForced) and task.exact:
        return (RunKind.FREE if task.free else RunKind.EXACT).word
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(task).__name__).lower()


TASKS = {kind.__name__: kind for kind in get_args(Task)}
