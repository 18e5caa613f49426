"""Get from the sides' processes the further runs that a judgement asks for.

A check judges, gets what would show more, the cheapest first, and judges again, until nothing more
is asked for:

    again, noise    a row in doubt: Paddle's float32 run repeated, torch's noise measured
    teacher forced  a row that is off: Paddle's modules fed with torch's values, to find the origins
    exact           what Paddle's inexact operators have to do with an origin
    free            whether they alone bring what is off behind one
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from twincheck.common.check.origins import prove_origins, run_with_exact_operators
from twincheck.common.check.workers import Workers
from twincheck.common.logs.key import Key
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.task import Again, Noise
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.judge import Judgement


class Further:
    """The further runs of one model's step; each of them is made once."""

    def __init__(self, workers: Workers, pair: Pair, folder: Path, notes: list[str]):
        self._workers, self._pair, self._folder, self._notes = workers, pair, folder, notes
        self._made: set[str] = set()  # teacher forced, exact, free
        self._failed = False

    @property
    def until(self) -> dict[str, bool]:
        """Return judge_logs' options that end judging at the first row that asks for more runs."""
        if "teacher forced" not in self._made:
            return {"until_off": True}
        return {"until_asked": not self._failed and "exact" not in self._made}

    def got(self, found: Mapping[str, Judgement]) -> bool:
        """Get the cheapest run that these judgements of a step's stems ask for.

        Returns True where one was made, and the logs are to be judged again.
        """
        judgements = list(found.values())
        if "teacher forced" not in self._made:
            if self._looked_closer(judgements):
                return True
            if all(judgement.harmless for judgement in judgements):
                return False
            self._workers.stepping[self._pair.name] = _cases_that_are_off(judgements)
            failed = self._workers.teacher_forced(self._pair)
            return self._made_now("teacher forced", failed, Kind.TEACHER_FORCING_FAILED)
        for name, asked in (("exact", "asks_exact"), ("free", "asks_free")):
            if self._failed or name in self._made:
                continue
            if any(getattr(judgement, asked) for judgement in judgements):
                if name == "exact":
                    failed = self._workers.teacher_forced(self._pair, exact=True)
                    return self._made_now(name, failed, Kind.PADDLES_PART_NOT_SHOWN)
                run_with_exact_operators(self._workers, self._pair, self._folder)
                return self._made_now(name)
        return self._looked_closer(judgements)

    def prove(self, found: Mapping[str, Judgement]) -> None:
        """Try, where a row is off, which of several origins inside the model is the one."""
        if self._made and not self._failed:
            for stem, judgement in found.items():
                prove_origins(self._workers, self._pair, self._folder, stem, judgement)

    def close(self) -> None:
        """Remove what only further runs were made from."""
        if self._made:
            self._workers.forget_whole(self._pair)

    def _made_now(self, name: str, failed: str = "", kind: Kind | None = None) -> bool:
        self._made.add(name)
        self._failed = bool(failed)
        if failed:
            self._notes.append(kind(why=failed))
        return True

    def _looked_closer(self, judgements: Iterable[Judgement]) -> bool:
        """Repeat a run of rows in doubt, or measure their noise; whether one was done."""
        looked = self._workers.look_closer
        asks_noise = [one for judgement in judgements for one in judgement.asks_noise]
        failed = looked(Noise(), self._pair, asks_noise)
        if failed is None:
            asks_again = (one for judgement in judgements for one in judgement.asks_again)
            failed = looked(Again(), self._pair, asks_again)
        if failed:
            self._notes.append(Kind.DOUBT_NOT_SETTLED(why=failed))
        return failed == ""


def _cases_that_are_off(judgements: Iterable[Judgement]) -> tuple[str, ...]:
    """The cases from the first one on in which a row is off, as far as was judged: `until_off`."""
    names: list[str] = []
    for one in judgements:
        if not one.harmless:
            prefix = Key.parse(one.rows[-1].key, one.cases).case
            at = one.cases.index(prefix) if prefix in one.cases else 0
            names += [name.rstrip("/") or "main" for name in one.cases[at:]]
    return tuple(dict.fromkeys(names))
