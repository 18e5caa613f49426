"""Assignments tried by values: the Paddle model runs with torch's weights, fed with torch's values.

NumPy only; the pass itself is made in the Paddle side's process (side_structure.py).  Every
unit is given what torch's was given, and what it makes of that with its weights is compared; what
goes on to the others is torch's.  So a wrong weight shows in its own layer's output, and a wrong
partner in what arrives at the next.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.system.json_file import write_json
from twincheck.common.weights.states import save_state
from twincheck.extras.new_pair.align import Fused
from twincheck.extras.new_pair.assignment import Assignment, Models
from twincheck.extras.new_pair.recipes import cut, join, value_of
from twincheck.extras.new_pair.structure import Structure, read_calls

# Both sides compute in float64: what agrees does so within rounding, what does not is far off.
CLOSE = 1e-7
# Where the sides compute otherwise nothing agrees, but what is right is by far the nearest.
NEARER = 0.3
# Of a small model; of a larger one as many as handle so many values, but some in any case.
MOST_TRIALS, LEAST_TRIALS, MOST_VALUES = 200, 20, 1_000_000_000


@dataclass(frozen=True)
class Event:
    """One tensor that a call was given or gave, against torch's: by how much of its size it is off.

    what   in or out
    """

    unit: str
    what: str
    gap: float

    @property
    def agrees(self) -> bool:
        """True where it is torch's but for rounding."""
        return self.gap <= CLOSE


@dataclass
class Tried:
    """The result of one trial: its events and calls, or its error."""

    events: list[Event] = field(default_factory=list)
    calls: Structure | None = None
    error: str = ""

    @property
    def score(self) -> int:
        """Return how many tensors agree; -1 after an error."""
        return -1 if self.error else sum(event.agrees for event in self.events)

    @property
    def failing(self) -> list[Event]:
        """Return the events that do not agree, in the order of the pass."""
        return [event for event in self.events if not event.agrees]

    def gap(self, unit: str, what: str) -> float | None:
        """The largest of a unit; None where nothing of it was seen."""
        return max((e.gap for e in self.events if (e.unit, e.what) == (unit, what)), default=None)


class Trials:
    """A Paddle process that tries one assignment after another."""

    def __init__(self, process: WorkerProcess, request: RunRequest, folder: Path, models: Models):
        self.process, self.request, self.folder, self.models = process, request, folder, models
        self.state = dict(np.load(folder / "weights" / "perturbed.npz"))
        self.whole = np.load(folder / "whole_torch.npz")
        self.count = 0
        calls = models.torch.calls
        shapes = [shape for call in calls for shape in (*call.given, *call.gave)]
        values = sum(map(math.prod, shapes)) + sum(v.size for v in self.state.values())
        self.most = min(MOST_TRIALS, max(LEAST_TRIALS, MOST_VALUES // max(1, values)))
        self._loaded: dict[str, str] = {}  # what the process's model holds

    @property
    def spent(self) -> bool:
        """Return whether there were as many trials as there may be."""
        return self.count >= self.most

    def run(self, assignment: Assignment, own=frozenset(), as_is=frozenset()) -> Tried:
        """One pass; a second where that shows that units should be fed as they are.

        own     units whose own results go on to the others, not torch's
        as_is   units whose axes are torch's, whatever arrives
        """
        self.count += 1
        paddle = self.models.paddle
        recipes = self.models.recipes(assignment)
        arrays = {}
        for key, recipe in recipes.items():
            if self._loaded.get(key) == recipe:
                continue  # the process has it from the last trial
            values = value_of(recipe, self.state)
            shape = paddle.owners[key].shape
            if values.size == int(np.prod(shape)):
                arrays[f"state:{key}"] = np.ascontiguousarray(values).reshape(shape)
        same: dict[str, str] = {}
        for name, match in assignment.matches.items():
            for i, other in enumerate(self.models.torch.calls_of(match.torch) if name else ()):
                if paddle.units[name].leaf and other.given:
                    same[f"{name}/{i}/in/0"] = f"{other.number}/in/0"
                for j in range(0 if match.regrouped or name in own else len(other.gave)):
                    same[f"{name}/{i}/out/{j}"] = f"{other.number}/out/{j}"
        for each in assignment.fused:
            arrays |= {f"given:{key}": values for key, values in self._of_fused(each)}
            for i, other in enumerate(self.models.torch.calls_of(each.torch[0])):
                same |= {f"{name}/{i}/in/0": f"{other.number}/in/0" for name in each.paddle}
        for name, match in assignment.matches.items():
            if match.regrouped and self.models.torch.units[match.torch].is_linear:
                count, before, after = match.regrouped
                for i, call in enumerate(self.models.torch.calls_of(match.torch)):
                    out = self.whole[f"{call.number}/out/0"]
                    if out.shape[-1] != count * max(before, after):
                        continue  # what it gives has no such parts
                    axis, sizes = out.ndim - 1, (out.shape[-1] // count,) * count
                    made = join(cut(out, sizes, before, axis), after, axis)
                    arrays[f"given:{name}/{i}/out/0"] = made
        save_state(self.folder / "trial.npz", arrays)
        nearer = {name: NEARER for name in paddle.units if name not in as_is}
        write_json(self.folder / "trial.json", {"same": same, "nearer": nearer})
        self.process.ask(self.request, self.folder / "request_try.json")
        failure = self.process.failure()
        self._loaded = recipes if failure is None else {}
        if failure is not None:
            tried = Tried(error=failure.reason)
        else:
            seen = read_calls(self.folder / "tried.json", paddle)
            tried = Tried(list(self._events(assignment, seen)), seen)
            turned = {call.module for call in seen.calls if call.turned}
            turned &= {event.unit for event in tried.failing if event.what == "out"} - as_is
            # Such as a layer that a port gives rows for columns: it is right, what arrives is not.
            other = self.run(assignment, own, as_is | turned) if turned else tried
            tried = other if other.score >= tried.score else tried
        return tried

    def _of_fused(self, each: Fused) -> Iterator[tuple[str, np.ndarray]]:
        """Yield what the units of a fused layer give, made of what the other side's gave."""
        torch = self.models.torch
        calls = [torch.calls_of(name) for name in each.torch]
        for i, call in enumerate(zip(*calls, strict=False)):
            outs = [self.whole[f"{c.number}/out/0"] for c in call]
            axis = 1 if torch.units[each.torch[0]].is_conv else outs[0].ndim - 1
            if each.joined:
                made = [join(outs, each.groups, axis)]
            else:
                made = cut(outs[0], each.sizes, each.groups, axis)
            for name, values in zip(each.paddle, made, strict=True):
                yield f"{name}/{i}/out/0", values

    def _events(self, assignment: Assignment, seen: Structure) -> Iterator[Event]:
        """Every call that has a partner in torch, compared."""
        torch, counts = self.models.torch, {}
        fused = {name: each.torch[0] for each in assignment.fused for name in each.paddle}
        partners = {"": "", **fused, **{n: m.torch for n, m in assignment.matches.items()}}
        for call in [*seen.calls[1:], *seen.calls[:1]]:  # the model itself, whose outputs come last
            i = counts[call.module] = counts.get(call.module, -1) + 1
            match = assignment.matches.get(call.module)
            others = torch.calls_of(partners[call.module]) if call.module in partners else []
            if i >= len(others):
                continue
            if call.module in fused:
                seen_of = [("in", 0)]
            elif call.module:
                seen_of = [("in", 0), ("out", 0)]
            else:
                seen_of = [("out", j) for j in range(len(call.gave))]
            fed = call.given[:1] == others[i].given[:1]  # else it was not given what torch's was
            gap = 0.0
            for what, j in seen_of:
                mine, its = ((c.given if what == "in" else c.gave) for c in (call, others[i]))
                if what == "out" and call.module and not fed and gap > CLOSE:
                    continue
                if j < min(len(mine), len(its)):
                    values = seen.values[f"{call.number}/{what}/{j}"]
                    reference = torch.values[f"{others[i].number}/{what}/{j}"]
                    in_order = mine[j] == its[j] and not (
                        what == "out" and match and match.regrouped
                    )
                    gap = distance(values, reference, in_order)
                    yield Event(call.module, what, gap)


def distance(values: np.ndarray, reference: np.ndarray, in_order: bool) -> float:
    """Return how far two fingerprints are apart, as a part of the reference's largest value.

    Of tensors that are not in one order the values count, in any order and number.
    """
    if values.shape != reference.shape:
        return np.inf
    if not values.size:
        return 0.0
    scale = np.abs(reference).max() or 1.0
    gaps = np.abs(values - reference).max(1) / scale
    return float(gaps.max() if in_order else gaps[1:].min())
