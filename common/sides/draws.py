"""A model's own random numbers: which number of the tape each draw gets, and a list of them.

`Draws` has what a model draws by `rand` and its kin, `Dropouts` its dropouts.

The n-th draw of its kind and shape in a pass gets the n-th such numbers; a pass is what runs
between two `begin` of a session.  The Paddle side knows the reference's list: a draw gets the
numbers that the module of the same name got there, in whatever order modules run; one in a module
that the reference does not have gets the first that are left.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from twincheck.common.logs.draws import Draw, Groups, Pass, Runs, grouped, pass_at, runs_of
from twincheck.common.logs.dropouts import axes_of, partners


class _Listed:
    """The list of what one run of one case draws, beside what the reference drew.

    reference   reads the reference's list as its sidecar has it; called at the first draw
    """

    def __init__(self, reference: Callable[[], Groups] | None = None):
        self.reference = reference
        self._recorded: list[list[Draw]] = []

    @cached_property
    def _runs(self) -> Runs:
        return runs_of(self.reference()) if self.reference else ()

    def listed(self, shorten: Callable[[str], str]) -> list[dict[str, object]]:
        """The list for the sidecar; `shorten` says how a file:line is written."""
        return grouped(
            [replace(draw, place=shorten(draw.place)) for draw in draws] for draws in self._recorded
        )


class Draws(_Listed):
    """The draws of one run of one case."""

    def __init__(self, reference: Callable[[], Groups] | None = None):
        super().__init__(reference)
        self.taking = False  # whether a model runs whose draws are the tape's
        self.own_sites: Collection[str] = ()  # this model's modules, by the reference's names
        self._number = -1  # of the pass
        self._has_drawn = False  # in the pass

    def begin(self) -> None:
        """Begin another pass."""
        self._has_drawn = False

    @contextmanager
    def from_tape(self) -> Iterator[None]:
        """A model runs: what it draws comes from the tape."""
        saved, self.taking = self.taking, True
        try:
            yield
        finally:
            self.taking = saved

    def enter(self, draw: Draw, counts: dict[str, int], record: bool) -> int:
        """The number of a draw among those of its kind and shape in the pass.

        counts  what a session counts by name; a recomputation has put back what it was
        record  whether the draw goes into the list
        """
        if not self._has_drawn:  # passes without a draw do not count
            self._has_drawn = True
            self._number += 1
            if record:
                self._recorded.append([])
        if record:
            self._recorded[-1].append(draw)
        number = self._choose(draw, counts)
        counts[f"drawn:{draw.key}:{number}"] = 1
        return number

    def _choose(self, draw: Draw, counts: dict[str, int]) -> int:
        sites = self._sites(draw)
        call = f"draw:{draw.site}:{draw.key}"
        earlier = counts.get(call, 0)  # at this site
        counts[call] = earlier + 1
        same = [number for number, site in enumerate(sites) if site == draw.site]
        wanted = same[earlier : earlier + 1]
        # Then what no module here will ask for by name.
        wanted += [number for number, site in enumerate(sites) if site not in self.own_sites]
        wanted += range(len(sites) + len(counts) + 1)
        return next(n for n in wanted if f"drawn:{draw.key}:{n}" not in counts)

    def _sites(self, draw: Draw) -> list[str]:
        """Return the sites where the reference draws the same, in its order.

        A whole training has more passes than the list, and batches of other lengths.
        """
        passes = [pass_at(self._runs, self._number), *(draws for _, draws in self._runs)]
        for key in ("key", "key_of_sample"):
            wanted = getattr(draw, key)
            for draws in passes:
                sites = [known.site for known in draws if getattr(known, key) == wanted]
                if sites:
                    return sites
        return []


class Restart(Exception):
    """A run must begin again: only now is known which dropout is which of the reference's."""


# The candidate's label of a dropout -> the reference's, and how the axes of its mask are turned.
Plan = Mapping[str, tuple[str, list[int] | None]]


class Dropouts(_Listed):
    """The dropouts of one run of one case: their labels on the tape, and a list of them.

    learned     a pass of the reference -> what the candidate's dropouts in it are; fills up
    """

    def __init__(
        self,
        reference: Callable[[], Groups] | None = None,
        learned: dict[tuple[str, Pass], Plan] | None = None,
        case: str = "",
    ):
        super().__init__(reference)
        self._learned = {} if learned is None else learned
        self._case = case
        self._plan: Plan = {}  # of this pass
        self._pass: list[Draw] | None = None  # what was drawn in it; None: nothing yet

    def begin(self) -> None:
        """Begin another pass.

        Raises Restart where the dropouts of the last one turn out to have other names on the
        reference's side: what was computed with the wrong masks is of no use.
        """
        drawn, self._pass = self._pass, None
        if not drawn:
            return
        if drawn == (self._recorded[-2:-1] or [None])[0]:  # a training has many alike
            self._recorded[-1] = self._recorded[-2]
        known = self._known(), tuple(drawn)
        key = self._case, known[0]
        if known[0] and key not in self._learned:
            self._learned[key] = _plan(*known)
            if self._learned[key]:
                raise Restart

    def enter(self, draw: Draw, record: bool) -> tuple[str, list[int] | None]:
        """The reference's label of a dropout, and how its mask's axes are turned.

        record  whether the draw goes into the list
        """
        if self._pass is None:
            self._pass = []
            self._recorded.append(self._pass)
            self._plan = self._learned.get((self._case, self._known()), {})
        if record:
            self._pass.append(draw)
        return self._plan.get(draw.site, (draw.site, None))

    def _known(self) -> Pass:
        """Return what the reference drew in this pass; passes without a dropout do not count."""
        return pass_at(self._runs, len(self._recorded) - 1)


def _plan(reference: Pass, candidate: Pass) -> Plan:
    """Return each dropout's label and axes in the reference; empty where all are their own."""
    found = partners(reference, candidate)
    names = {draw.site for draw in reference}
    plan: dict[str, tuple[str, list[int] | None]] = {}
    for number, draw in enumerate(candidate):
        if number in found:
            other = reference[found[number]]
            plan[draw.site] = other.site, axes_of(other.shape, draw.shape)
    for number, draw in enumerate(candidate):
        if number not in found:  # one too many: numbers that no other dropout has
            site = draw.site.partition("#")[0]
            taken = names | {label for label, _ in plan.values()}
            counted = (f"{site}#{n}" for n in range(2, len(taken) + 3))
            label = next(n for n in (draw.site, *counted) if n not in taken)
            plan[draw.site] = label, None
    return {} if all(plan[name] == (name, None) for name in plan) else plan
