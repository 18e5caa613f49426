"""How long a step still takes, estimated from what its parts took so far.

A part is one case on one side in one precision, one set-up of an optimizer's steps, or the judging
of one model.  What a part takes is what the same part took elsewhere, times how fast the two runs
are; else what others of its kind took.  Nothing is said before each kind of part was seen once.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

CASE, SETUP, JUDGING = "case", "set-up", "judging"  # kinds of parts
_FLOAT32 = 0.6  # of float64's time, till it is measured
_JUDGING = 0.1  # of what the sides of a model took, till it is measured
# How slowly what is shown follows a new estimate: a part of that, at most so long.
_SLOWNESS, _MOST_S = 0.25, 4.0


@dataclass(frozen=True)
class Part:
    """One part of a step."""

    side: str
    model: str
    dtype: str
    name: str
    kind: str = CASE
    again: int = 0  # the how-manieth further run of the side it belongs to

    @property
    def run(self) -> tuple[str, str, int]:
        """The log that it is a part of, whichever the model."""
        return self.side, self.dtype, self.again

    @property
    def everywhere(self) -> tuple[str, str, str]:
        """What it has in common with the same part of other runs."""
        return self.model, self.kind, self.name


@dataclass
class TimeLeft:
    """What is to be done and what was; asked by the thread that shows it, told by those that run.

    clock    gives seconds that only grow
    at_once  one works at a model while another one works at the next; judging begins when torch,
             the first, is done with all
    """

    clock: Callable[[], float] = time.monotonic
    at_once: bool = False
    _expected: dict[Part, None] = field(default_factory=dict)  # what has not begun, in its order
    _running: dict[str, tuple[Part, float]] = field(default_factory=dict)  # side -> (part, since)
    _took: dict[Part, float] = field(default_factory=dict)
    _shown: tuple[float, float] | None = None  # what was last said, and when
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, parts: Iterable[Part]) -> None:
        """These are still to be done."""
        with self._lock:
            self._expected |= dict.fromkeys(parts)

    def expect_again(self, side: str, model: str, dtype: str) -> None:
        """A side's run of a model will be repeated."""
        with self._lock:
            one = [p for p in self._took if (p.side, p.model, p.dtype) == (side, model, dtype)]
            number = max((part.again for part in one), default=0) + 1
            first = (part for part in one if not part.again)
            self._expected |= dict.fromkeys(replace(part, again=number) for part in first)

    def drop(self, model: str) -> None:
        """Nothing more will be done for a model: it failed."""
        with self._lock:
            self._expected = {p: None for p in self._expected if p.model != model}

    def begin(self, part: Part) -> None:
        """A part has begun; what its side did before has ended."""
        with self._lock:
            self._end(part.side)
            while part not in self._expected and part in self._took:
                part = replace(part, again=part.again + 1)
            for before in list(self._expected):
                if before == part:
                    break
                if part in self._expected and (before.run, before.model) == (part.run, part.model):
                    del self._expected[before]  # it was left out
            self._expected.pop(part, None)
            self._running[part.side] = part, self.clock()

    def end(self, side: str, model: str | None = None) -> None:
        """A side's part has ended; with `model` its other parts of that model will not come."""
        with self._lock:
            running = self._running.get(side)
            if running is not None and model in (None, running[0].model):
                self._end(side)
            for part in list(self._expected) if model else ():
                if (part.side, part.model) == (side, model):
                    del self._expected[part]

    def seconds(self) -> float | None:
        """What is left, in seconds; None while nothing can be said."""
        with self._lock:
            now = self.clock()
            left = self._left(now)
            if left is None:
                return None
            if self._shown is not None:
                before, at = self._shown
                slowness = min(max(_SLOWNESS * left, 0.1), _MOST_S)
                weight = 1.0 - math.exp(-max(now - at, 0.0) / slowness)
                counted_down = max(before - (now - at), 0.0)
                left = counted_down + weight * (left - counted_down)
            self._shown = left, now
            return left

    def _end(self, side: str) -> None:
        part, since = self._running.pop(side, (None, 0.0))
        if part is not None:
            self._took[part] = self.clock() - since

    def _left(self, now: float) -> float | None:
        if not any(part.kind == CASE for part in self._took):
            return None
        waits: dict[tuple[str, str], float] = {}  # (who, the model) -> seconds
        done = {part: now - since for part, since in self._running.values()}
        for part in [*done, *self._expected]:
            predicted = self._predicted(part)
            if predicted is None:
                return None
            key = part.side, part.model
            waits[key] = waits.get(key, 0.0) + max(predicted - done.get(part, 0.0), 0.0)
        return _at_once(waits) if self.at_once else sum(waits.values())

    def _predicted(self, part: Part) -> float | None:
        """What a part will take; None where nothing like it was seen."""
        if part.kind == JUDGING:
            return self._judging(part)
        elsewhere = [p for p in self._took if p.everywhere == part.everywhere and p != part]
        # The run that is most like it tells most.
        elsewhere.sort(key=lambda p: (p.side != part.side, p.dtype != part.dtype))
        if elsewhere:
            return self._took[elsewhere[0]] * self._ratio(part.run, elsewhere[0].run)
        alike = [p for p in self._took if p.kind == part.kind and p.model == part.model]
        alike = alike or [p for p in self._took if p.kind == part.kind]
        if not alike:
            return None
        times = [self._took[p] * self._ratio(part.run, p.run) for p in alike]
        return sum(times) / len(times)

    def _ratio(self, run: tuple[str, str, int], other: tuple[str, str, int]) -> float:
        """How much longer a run takes than another, by the parts that both have done."""
        if run == other:
            return 1.0
        mine = {p.everywhere: t for p, t in self._took.items() if p.run == run}
        theirs = {p.everywhere: t for p, t in self._took.items() if p.run == other}
        both = mine.keys() & theirs.keys()
        total = sum(theirs[name] for name in both)
        if total > 0.0:
            return sum(mine[name] for name in both) / total
        usual = {"float32": _FLOAT32}
        return usual.get(run[1], 1.0) / usual.get(other[1], 1.0)

    def _judging(self, part: Part) -> float | None:
        """What judging a model takes: by what its sides took."""
        done = [p for p in self._took if p.kind == JUDGING]
        ran = [self._of_model(p.model) for p in done]
        share = _JUDGING
        if done and all(ran):
            share = sum(self._took[p] for p in done) / sum(ran)
        of_model = self._of_model(part.model)
        return None if of_model is None else share * of_model

    def _of_model(self, model: str) -> float | None:
        """What both sides of a model take, done or to be done."""
        times = [t for p, t in self._took.items() if p.model == model and p.kind != JUDGING]
        still = [*self._expected, *(part for part, _ in self._running.values())]
        mine = [p for p in still if p.model == model and p.kind != JUDGING]
        times += [self._predicted(part) for part in mine]
        return None if None in times else sum(times)


def _at_once(waits: Mapping[tuple[str, str], float]) -> float:
    """When all is done, in seconds: Paddle has a model behind torch, the check behind both.

    waits  (who, model) -> what that takes, in the models' order
    """
    ready: dict[str, float] = {}  # model -> when whoever is next can have it
    torch_ends = sum(takes for (who, _), takes in waits.items() if who == "torch")
    for each, at in (("torch", 0.0), ("paddle", 0.0), ("check", torch_ends)):
        for (who, model), takes in waits.items():
            if who == each:
                at = ready[model] = max(at, ready.get(model, 0.0)) + takes
    return max(ready.values(), default=0.0)
