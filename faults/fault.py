"""What a planted fault is: one short change to a Paddle twin or to the pipeline, and who finds it.

A fault is judged strictly: the step that it names must turn red, and the first row that is off
must be the one that it names (or, where the check must refuse, its sentence must hold the text).
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from faults.checkout import complete
from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.checkout import ROOT

MODELS = "common/models"
SMALL_CNN = "tests/pairs/small_cnn"
TEXT_CLASSIFIER = "examples/text_classifier"
USERS = "faults/users/pairs"
HARD = "faults/pairs"

STEPS_WITH_CASES = (1, 3, 4)  # whose checks take --case
UNNAMED = "main"  # what --case calls a case whose keys begin with no name


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    id         unique; words and dashes
    what       the mistake in a few words, the wrong thing first
    model      built-in name, or the folder of a pair in the checkout
    file       the file that is changed; "": none (only `after`)
    old, new   `old` occurs in it exactly once, and is replaced by `new`
    step       of the check that must find it
    origin     the key of the first row that is off, as it ends: `poolers.0.pooled` or, where only
               one case reaches it, `masked_rows/poolers.0.pooled`; if `refused`, a part of the
               check's sentence
    refused    the check must say that it cannot compare (exit status 2) instead of 1
    arguments  further options of the check
    passes     earlier steps that cannot see the fault, and so must stay green in its case, or in
               the model's first where it is in none
    after      (log folder, another run's log folder) -> None: what is done to the logs of a correct
               run before they are judged again with --compare-only; the patch is applied then too
    area       what it is about
    check      of a further check in the step's folder, check_NAME.py, its name
    other      options of that other run, which `after` takes logs from; None: there is none
    """

    id: str
    what: str
    model: str
    step: int
    origin: str
    file: str = ""
    old: str = ""
    new: str = ""
    refused: bool = False
    arguments: tuple[str, ...] = ()
    passes: tuple[int, ...] = ()
    after: Callable[[Path, Path], None] | None = None
    other: tuple[str, ...] | None = None
    area: str = ""
    check: str = ""

    @property
    def name(self) -> str:
        """The model's name, as the logs' folder has it."""
        return Path(self.model).name

    @property
    def case(self) -> str:
        """The case that its origin is in, which is all that has to run; "" where more has to."""
        if self.step not in STEPS_WITH_CASES or self.refused:
            return ""
        if "--case" in self.arguments:
            return ""
        case, cases = self.origin.partition("/")[0], cases_of(self.model)
        if case in cases:
            return case
        return UNNAMED if "" in _names(self.model) else ""

    def planted(self, text: str) -> str:
        """The file's text with the fault; raises ValueError unless `old` occurs exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.id}: {self.file} holds {self.old!r} {text.count(self.old)} times, not once"
            )
        return text.replace(self.old, self.new)

    def named(self, key: str) -> bool:
        """True if a key is the one where this fault starts."""
        return key == self.origin or key.endswith(f"/{self.origin}")


@cache
def cases_of(model: str) -> tuple[str, ...]:
    """The names of a model's cases, as --case takes them."""
    return tuple(name or UNNAMED for name in _names(model))


@cache
def _names(model: str) -> tuple[str, ...]:
    """The names of a model's cases; a pair's only one may have none."""
    with TemporaryDirectory() as folder:
        made = Path(folder, Path(model).name)
        if "/" in model:
            shutil.copytree(ROOT / model, made)
            complete(made)
        pair = load_pair(str(made) if "/" in model else model)
        return tuple(case.name for case in pair.cases("default"))
