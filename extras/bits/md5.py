"""MD5 of each training step's loss and gradients, as lines of text: written, read and compared.

The line of a loss is the one that PaddleFleet's and Megatron's runs print for their alignment
(scripts/alignment_model_accuracy of PaddleFleet), so that their logs can be read here and these
there; that of a gradient is ours, with torch's name and layout:

    final_loss: rank=0 val=8.997344 md5=0123456789abcdef0123456789abcdef
    gradient: rank=0 step=1 name=head.weight shape=[3, 16] md5=…

A loss has no step in its line: the n-th one of a rank is of the n-th step.  NumPy only.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.extras.bits import Kind

_LINE = re.compile(
    r"(?P<kind>final_loss|per_token_loss|gradient):\s*rank=(?P<rank>\d+)\s+"
    r"(?:step=(?P<step>\d+)\s+)?(?:name=(?P<name>\S+)\s+)?"
    r"(?:val=(?P<value>\S+)\s+)?(?:shape=\[(?P<shape>[^\]]*)\]\s+)?md5=(?P<md5>[0-9a-fA-F]{32})"
)


@dataclass(frozen=True)
class Mark:
    """One tensor of one step."""

    step: int  # from 1
    name: str  # final_loss, per_token_loss, or a gradient's
    rank: int
    md5: str
    value: str = ""  # of a loss, as it was written

    @property
    def key(self) -> tuple[int, str, int]:
        """What the same tensor has on the other side."""
        return self.step, self.name, self.rank


def md5_of(values: np.ndarray) -> str:
    """The MD5 of an array's bytes in C order."""
    return hashlib.md5(np.ascontiguousarray(values).tobytes()).hexdigest()


def lines(step: int, loss: np.ndarray, gradients: Iterable[tuple[str, np.ndarray]]) -> list[str]:
    """The lines of one step, which counts from 1."""
    loss = np.asarray(loss)
    made = [f"final_loss: rank=0 val={float(loss):.9g} md5={md5_of(loss)}"]
    for name, values in gradients:
        shape = ", ".join(map(str, values.shape))
        made.append(
            f"gradient: rank=0 step={step} name={name} shape=[{shape}] md5={md5_of(values)}"
        )
    return made


def read(path: Path) -> list[Mark]:
    """The marks of a log, in its order; raises UserError for a file that has none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(Kind.FILE_UNREADABLE(path=str(path), error=error.strerror)) from None
    found: list[Mark] = []
    counts: dict[tuple[str, str], int] = {}
    for line in _LINE.finditer(text):
        kind, rank = line["kind"], line["rank"]
        step = int(line["step"] or 0)
        if not step:
            step = counts[kind, rank] = counts.get((kind, rank), 0) + 1
        name = line["name"] or kind
        found.append(Mark(step, name, int(rank), line["md5"].lower(), line["value"] or ""))
    if not found:
        raise UserError(Kind.FILE_WITHOUT_MD5(path=str(path)))
    return found


@dataclass(frozen=True)
class Compared:
    """Two logs beside each other."""

    first: tuple[Mark, Mark] | None  # that differ: torch's and Paddle's; None: all are equal
    equal: int
    differing: int
    alone: int  # marks of one side alone


def compare(torch: list[Mark], paddle: list[Mark]) -> Compared:
    """Which tensor differs first, in torch's order; raises UserError where none is in both."""
    others = {mark.key: mark for mark in paddle}
    pairs = [(mark, others[mark.key]) for mark in torch if mark.key in others]
    if not pairs:
        raise UserError(Kind.NO_TENSOR_IN_BOTH())
    off = [pair for pair in pairs if pair[0].md5 != pair[1].md5]
    first = min(off, key=lambda pair: pair[0].step, default=None)
    alone = len({mark.key for mark in torch} ^ set(others))
    return Compared(first, len(pairs) - len(off), len(off), alone)
