"""Get from the sides' processes the further runs that a judgement needs.

A check judges, gets the first run that is needed and can be had, and judges again, until there is
none:

    noise, again    a row in doubt: torch's noise measured, Paddle's float32 run repeated
    teacher forced  a row that is off: Paddle's modules fed with torch's values, to find the origins
    exact           what Paddle's inexact operators have to do with an origin
    free            whether they alone bring what is off behind one
"""

from collections.abc import Mapping
from pathlib import Path

from twincheck.common.check.lines import find_lines
from twincheck.common.check.origins import prove_origins, run_with_exact_operators
from twincheck.common.check.workers import Workers
from twincheck.common.logs.key import Key
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.task import Again, Noise
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.judge import Judgement
from twincheck.common.verdict.needs import NAMES, Need, together

# Of a run that could not be had: what the verdict goes without.
_WITHOUT = {
    "noise": Kind.NOT_LOOKED_CLOSER,
    "again": Kind.NOT_LOOKED_CLOSER,
    "teacher_forced": Kind.NOT_TEACHER_FORCED,
    "exact": Kind.NOT_EXACT,
}


class Further:
    """The further runs of one model's step."""

    def __init__(self, workers: Workers, pair: Pair, folder: Path, notes: list[str]):
        self._workers, self._pair, self._folder, self._notes = workers, pair, folder, notes
        self.obtainable = {"noise", "again", "teacher_forced", "exact", "free"}
        self.way: list[Reason] = []  # which run was needed, for which row, and what came of it
        self._is_fed = False  # whether there are teacher-forced runs

    def got(self, found: Mapping[str, Judgement]) -> bool:
        """Get the first run that these judgements of a step's stems need and that can be had.

        Returns True where the logs are to be judged again.
        """
        for run, need in together(one.needs for one in found.values()).items():
            failed = self._get(run, need, found) if run in self.obtainable else None
            if failed is None:
                continue
            of = {"run": NAMES[run](), "key": need.key}
            self.way.append(Kind.RUN_FAILED(why=failed, **of) if failed else Kind.RUN_MADE(**of))
            if failed:
                self._notes.append(_WITHOUT[run](why=failed))
            if not failed or run not in self.obtainable:  # judging ended at what it would show
                return True
        return False

    def _get(self, run: str, need: Need, found: Mapping[str, Judgement]) -> str | None:
        """Make a run; returns why that could not be, and None where nothing was left to do."""
        if run in ("noise", "again"):
            task = Noise() if run == "noise" else Again()
            return self._workers.look_closer(task, self._pair, need.passes)
        self.obtainable.discard(run)
        if run == "free":
            run_with_exact_operators(self._workers, self._pair, self._folder)
            return ""
        if run == "teacher_forced":
            self._workers.stepping[self._pair.name] = _cases_that_are_off(found)
        failed = self._workers.teacher_forced(self._pair, exact=run == "exact")
        if failed:
            self.obtainable -= {"exact", "free"}
        self._is_fed = not failed
        return failed

    def prove(self, found: Mapping[str, Judgement]) -> None:
        """Try, where a row is off, which of several origins inside the model is the one."""
        if self._is_fed:
            for stem, judgement in found.items():
                prove_origins(self._workers, self._pair, self._folder, stem, judgement)

    def find_lines(self, found: Mapping[str, Judgement]) -> None:
        """Find the line of each place where a difference starts."""
        for stem, judgement in found.items() if self._is_fed else ():
            lines = find_lines(self._workers, self._pair, self._folder, stem, judgement)
            judgement.lines |= lines

    def close(self) -> None:
        """Remove what only further runs were made from."""
        if "teacher_forced" not in self.obtainable:
            self._workers.forget_whole(self._pair)


def _cases_that_are_off(found: Mapping[str, Judgement]) -> tuple[str, ...]:
    """The cases from the first one on in which a row is off, as far as was judged."""
    names: list[str] = []
    for one in found.values():
        if "teacher_forced" in one.needs:
            prefix = Key.parse(one.rows[-1].key, one.cases).case
            at = one.cases.index(prefix) if prefix in one.cases else 0
            names += [name.rstrip("/") or "main" for name in one.cases[at:]]
    return tuple(dict.fromkeys(names))
