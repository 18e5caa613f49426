"""A trace: every operator's call of a run, what it was given and made, and the gradients there.

NAME.npz has the values, NAME.json the calls: a side's process writes them, the check's reads them.
NumPy only.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.system.npz import read_npz

PYTHON = "="  # the name of a call that is a statement on plain numbers


@dataclass
class Frame:
    """A line of the model that led to a call."""

    file: str
    line: int
    function: str
    numbers: dict[str, object] = field(default_factory=dict)  # its variables that are plain

    @property
    def place(self) -> str:
        """Return it as file:line."""
        return f"{self.file}:{self.line}"


@dataclass
class Call:
    """One call of an operator, of a framework's layer, or of what fills a tensor."""

    name: str  # softmax; of a layer its class
    given: list[int]  # numbers of the values that it was given
    made: list[int]  # and of those that it made
    frames: list[Frame]  # the innermost first
    options: dict[str, object] = field(
        default_factory=dict
    )  # its plain arguments, by name or place
    built: str = ""  # of a layer, the line that builds it
    fed: list[int] = field(default_factory=list)  # of one without a tensor, what Python gave it

    @property
    def place(self) -> str:
        """Return the line that asked for it."""
        return self.frames[0].place

    @property
    def sources(self) -> list[int]:
        """Return the numbers of what it was made of: tensors, or else Python's numbers."""
        return self.given or self.fed


@dataclass
class Trace:
    """The calls of a run in their order, and their values."""

    calls: list[Call] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    whole: bool = True  # false where values were too many to be kept
    gradients: dict[int, np.ndarray] = field(default_factory=dict)  # value -> the loss's
    put: dict[int, int] = field(default_factory=dict)  # by a probe -> in which value's place

    def __post_init__(self) -> None:
        self.maker: dict[int, int] = {}  # value -> the call that made it
        for number, call in enumerate(self.calls):
            for value in call.made:
                self.maker.setdefault(value, number)

    def write(self, path: Path) -> None:
        """Write NAME.npz and NAME.json; `path` ends in neither."""
        arrays = {f"v{i}": v for i, v in enumerate(self.values)}
        arrays |= {f"g{i}": gradient for i, gradient in self.gradients.items()}
        np.savez(path.with_suffix(".npz"), **arrays)
        told = {"whole": self.whole, "put": list(self.put.items())}
        told["calls"] = list(map(asdict, self.calls))
        path.with_suffix(".json").write_text(json.dumps(told))

    @classmethod
    def read(cls, path: Path) -> "Trace":
        """Read what `write` wrote; raises OSError where it is not there."""
        told = json.loads(path.with_suffix(".json").read_text())
        values = read_npz(path.with_suffix(".npz"))
        calls = [
            Call(**call | {"frames": [Frame(**frame) for frame in call["frames"]]})
            for call in told["calls"]
        ]
        numbers = [int(name[1:]) for name in values if name[0] == "g"]
        gradients = {i: values[f"g{i}"] for i in numbers}
        count = len(values) - len(gradients)
        kept = [values[f"v{i}"] for i in range(count)]
        return cls(calls, kept, told["whole"], gradients, dict(told["put"]))
