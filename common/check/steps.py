"""The five steps, and what each one runs; the check's process only."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.check.options import OF_EVERY_CHECK, of
from twincheck.common.logs.guide_pair import full_stem
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.reasons import Kind


@dataclass(frozen=True)
class Launch:
    """One run of a step's worker scripts, torch first."""

    # What the run is asked for beside what the user asks; a mapping has no hash.
    request: Mapping[str, object] = field(default_factory=dict, hash=False)
    teacher_forced: bool = True  # a difference can be judged locally
    side_by_side: bool = False  # the Paddle side needs nothing from the torch side
    processes: int = 1  # of each side, started by its framework's own launcher
    then: tuple["Launch", ...] = ()  # what the same processes run next

    @property
    def parts(self) -> tuple["Launch", ...]:
        """Return this launch, and those that its process runs behind it."""
        return self, *self.then


@dataclass(frozen=True)
class Step:
    """One step: where its scripts are, what they leave, and the guide's rule for it.

    judged       stems of the logs that get a verdict (common/verdict/rule.py)
    guide_…      stem of the pair that the guide asks for, its threshold, and what to say where its
                 rule fails although our verdict passes
    extra        (folder of one model's logs, pair) -> further rows, such as witnesses, and notes
    answer       (folder, pair) -> what is no verdict on the port, for --json, and notes
    decides      (result, folder) -> what the result consists of: name -> {verdict, said}
    spares       (launch, folder, pair, request) -> True where a launch need not run
    initial      stem of the logs of initial weights: rows of a step that trains; of another they
                 decide nothing, and are said
    undecided    (result, folder) -> what more to ask for, where that may decide; empty: nothing
    other        of a further check in the step's folder, check_OTHER.py: its name in the table, and
                 the folder of its logs beside the step's own
    scripts      the package of the script of both sides, where each has none in the step's folder
    """

    number: int
    title: str
    script: str
    launches: tuple[Launch, ...]
    judged: tuple[str, ...]
    guide_stem: str
    guide_threshold: float = 1e-6
    guide_failure: str = ""  # what its failing the guide's rule means, where no row says it
    probes: bool = False  # looks at every module, unless told otherwise
    data: bool = False  # reads data sets
    tokenizes: bool = False  # tries the tokenizers, whatever the data are
    decodes: bool = False  # also runs the cases that decode with a cache
    trains: bool = False  # and can go on with a training that was stopped
    optimizers: bool = False  # takes steps of several set-ups
    extra: Callable | None = None
    answer: Callable | None = None
    decides: Callable | None = None
    spares: Callable | None = None
    undecided: Callable | None = None
    initial: str = ""
    other: str = ""
    scripts: str = ""

    @property
    def folder(self) -> Path:
        """The step's folder in the checkout."""
        return ROOT / f"step{self.number}_{self.title}"

    @property
    def name(self) -> str:
        """The name of the step's folder."""
        return self.folder.name

    @property
    def full_stem(self) -> str:
        """The stem of the logs that the guide's pair is selected from."""
        return full_stem(self.guide_stem)

    @property
    def takes(self) -> tuple[str, ...]:
        """The options that its check takes."""
        groups = {
            "reference": True,
            "data": self.data,
            "cases": not self.data,
            "half": self.trains or not self.data,
            "probes": self.probes,
            "training": self.trains,
            "optimizers": self.optimizers,
        }
        return OF_EVERY_CHECK + of(*(name for name, taken in groups.items() if taken))

    @property
    def command(self) -> str:
        """The check's command, which has the name of its script in the step's folder."""
        return f"check-{self.other}" if self.other else f"step{self.number}"

    def why_not(self, pair: Pair) -> str:
        """Return why a pair has nothing for this step; empty where it has."""
        if self.data and not any(hasattr(pair.case, name) for name in ("make_data", "DATA")):
            return Kind.PAIR_WITHOUT_MAKE_DATA()
        file = pair.folder / "torch_model.py"
        if self.number < 3 or not file.is_file():
            return ""
        found = re.search(r"\bloss\b|import \*", file.read_text(encoding="utf-8", errors="replace"))
        return "" if found else Kind.PAIR_WITHOUT_LOSS()

    def module(self, side: str) -> str:
        """The script of a side, or of both."""
        return f"twincheck.{self.scripts or f'{self.name}.{side}'}.{self.script}"
