"""The logs of one judgement, and which of their keys are not judged.

NumPy only.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property

import numpy as np

from twincheck.common.logs import result_folder
from twincheck.common.logs.guide_pair import guide_value
from twincheck.common.logs.independence import told_apart, transplanted
from twincheck.common.logs.key import BUFFER, Key, parent_of
from twincheck.common.logs.leading import KEPT
from twincheck.common.logs.reader import Lazily, read_log
from twincheck.common.logs.sidecar import (
    CHOICE,
    IN_PLACE,
    OWN,
    Sidecar,
    places_of_scores,
    sidecar_of,
)
from twincheck.common.logs.sums import can_be_summed, shape_of_sums, summed
from twincheck.common.system.errors import LogError
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import escaped, printable

LOGS = {name: called(side=side) for name, (side, _, called) in result_folder.JUDGED.items()}
AGAIN = tuple(run.name.lower() for run in result_folder.AGAIN)
_FLOAT32 = ("ref32", "cand32")
STATISTICS = ("running_mean", "running_var")  # of a BatchNorm


class Logs:
    """The logs of one judgement by name, those that there are, with their sidecars.

    parts   the logs hold some of the tensors that their sidecars are about, as those of a bundle
    """

    def __init__(
        self,
        stack: ExitStack,
        sources: Mapping[str, str | os.PathLike | Mapping | None],
        parts: bool = False,
    ):
        self._logs: dict[str, Mapping[str, np.ndarray]] = {}
        self.sidecars = dict.fromkeys(LOGS, Sidecar())  # one that says nothing: none is there
        for name, source in sources.items():
            if isinstance(source, Mapping):
                self._logs[name] = source
            elif source is not None:
                self._logs[name] = stack.enter_context(read_log(source))
                self.sidecars[name] = sidecar_of(source)
        self.cases = tuple(self.sidecars["ref32"].batches)
        # Key -> the shape of a tensor of which some log has a sample and sums only, by the log.
        self._sums: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, log in self._logs.items():
            for key, shape in self.sidecars[name].sums.items():
                if parts and key not in log:
                    continue
                if key not in log or log.shape(key) != shape_of_sums(shape):
                    said = {"path": str(log.path), "key": printable(key), "shape": shape}
                    raise LogError(Kind.LOG_WITHOUT_ITS_SUMS(**said))
                self._sums.setdefault(key, {})[name] = tuple(shape)
        # Keys that are no tensor of the model's.
        self.hidden = set[str]().union(*map(places_of_scores, self.sidecars.values()))
        self._booleans = {n: frozenset(told.booleans) for n, told in self.sidecars.items()}
        selected = self.sidecars["ref32"].selected.get("keys")
        torch64 = self._logs.get("ref64", {})
        for name in ("ref64", "cand64") if selected else ():
            if name in self._logs:
                self._logs[name] = _renamed(self._logs[name], selected, torch64)

    def __getitem__(self, name: str) -> Mapping[str, np.ndarray]:
        return self._logs[name]

    def __contains__(self, name: str) -> bool:
        return name in self._logs

    def leave_out_lone_float64(self) -> str:
        """Go on without a float64 log that has none beside it; the name of the one that is missing.

        Empty where both are there, or neither.
        """
        missing = [name for name in ("ref64", "cand64") if name not in self._logs]
        if len(missing) != 1:
            return ""
        for name in ("ref64", "cand64"):
            self._logs.pop(name, None)
        return missing[0]

    def get(self, name: str, key: object) -> np.ndarray | None:
        """A log's value of a key; None where there is none.

        Of a tensor that some log holds as sums only, the sums.
        """
        log, key = self._logs.get(name), str(key)
        if log is None or key not in log:
            return None
        if key in self._sums and name not in self._sums[key] and can_be_summed(log[key]):
            return summed(log[key])
        if key in self._booleans.get(name, ()):
            return log[key].astype(np.int64)  # as in other logs
        return log[key]

    def again(self, key: object) -> list[np.ndarray]:
        """The candidate's float32 values of the repeated runs, of those that there are."""
        values = (self.get(name, key) for name in AGAIN)
        return [value for value in values if value is not None]

    def of_sums(self, key: object) -> bool:
        """True where `get` gives sums instead of a tensor."""
        return str(key) in self._sums

    def shape(self, name: str, key: object) -> tuple[int, ...] | None:
        """The shape of a tensor, of which there may be sums only; None where there is none."""
        log, key = self._logs.get(name), str(key)
        if log is None or key not in log:
            return None
        shape = self._sums.get(key, {}).get(name)
        return shape or (log.shape(key) if hasattr(log, "shape") else np.shape(log[key]))

    def classes_of(self, key: object) -> list[str]:
        """The class of what a key belongs to, on either side; empty texts where none is known."""
        key = str(key)
        return [self.sidecars[name].classes.get(key, "") for name in _FLOAT32]

    @cached_property
    def not_forced(self) -> frozenset[str]:
        """Keys of the reference's values that the candidate's modules were not fed."""
        return frozenset(self.sidecars["teacher_forced"].not_forced)

    def was_forced(self, key: Key) -> bool:
        """Return whether a row's module was fed all that it was given, so that it is seen alone.

        Another module's input is made by the code around it.
        """
        site = parent_of(key.site) if key.kind == "grad" else key.site.partition("/")[0]
        missing = {(key.case, site, "", True)} if key.kind or not key.is_input else set()
        if key.is_gradient:
            missing.add((key.case, site, "grad_of", False))
        return self._not_forced.isdisjoint(missing)

    @cached_property
    def _not_forced(self) -> set[tuple]:
        keys = [Key.parse(key, self.cases) for key in self.not_forced]
        return {(k.case, k.site.partition("/")[0], k.kind, k.is_input) for k in keys}

    def keys(self) -> list[str]:
        """The reference's keys in their order; those of the candidate alone where it made them.

        Without those of no tensor of the model's (`hidden`).
        """
        ref, cand = (self._logs[name] for name in _FLOAT32)
        behind: dict[str | None, list[str]] = {}
        last = None
        for key in cand:
            if key in ref:
                last = key
            else:
                behind.setdefault(last, []).append(key)
        keys = [*behind.get(None, []), *(k for key in ref for k in (key, *behind.get(key, [])))]
        return [key for key in keys if key not in self.hidden]

    def is_inside(self, key: Key) -> bool:
        """True for what a module was given or gave, and the gradient there.

        So are a dropout's rate and a choice that nobody asked for by name, where a side has it
        alone.  Buffers and the statistics of a BatchNorm are results.
        """
        if key.local in STATISTICS or key.kind == BUFFER:
            return False
        if CHOICE in self.classes_of(key):
            return bool(self.missing(key))
        return any(self.classes_of(key)) or key.local == "p" and bool(self.missing(key))

    def missing(self, key: object) -> str:
        """Name the logs that lack a key which others of their precision have; empty where none."""
        key = str(key)
        lacking = [name for name in _FLOAT32 if key not in self._logs[name]]
        if "ref64" in self and (key in self._logs["ref64"]) != (key in self._logs["cand64"]):
            lacking += [name for name in ("ref64", "cand64") if key not in self._logs[name]]
        if lacking == ["cand32"] or lacking == ["cand32", "cand64"]:
            return Kind.MISSING_IN_PADDLE()
        if lacking == ["ref32"] or lacking == ["ref32", "ref64"]:
            return Kind.MISSING_IN_TORCH()
        return Kind.MISSING_IN_RUN(run=[LOGS[name] for name in lacking]) if lacking else ""

    def is_idle(self, key: Key) -> bool:
        """True for a dropout's rate that one side lacks, where its rate is 0 and it draws none."""
        lacking = [name for name in _FLOAT32 if str(key) not in self._logs[name]]
        at = key.prefix + key.site
        return key.local == "p" and any(at in self.sidecars[name].idle for name in lacking)

    def notes(self, keys: Sequence[str]) -> list[str]:
        """Return the notes on how these keys' values were kept and fed."""
        notes = []
        summed = sum(map(self.of_sums, keys))
        if summed:
            notes.append(Kind.JUDGED_BY_SUMS(count=summed))
        if self.hidden:
            notes.append(Kind.JUDGED_BY_LARGEST_SCORES(count=len(self.hidden), kept=KEPT))
        if self.not_forced:
            such = escaped(min(self.not_forced))
            notes.append(Kind.VALUES_NOT_FED(count=len(self.not_forced), key=such))
        return notes

    @property
    def may_be_alike(self) -> bool:
        """True where two logs may well be the same to the last bit, by what they say themselves."""
        apart = told_apart(*(self.sidecars[name] for name in _FLOAT32))
        return apart or transplanted(self.sidecars.values())


def _renamed(
    log: Mapping[str, np.ndarray], keys: Mapping[str, str], torch_log: Mapping
) -> Mapping[str, np.ndarray]:
    """Return what the guide's pair has of a full log, under the pair's keys."""
    stored = {key: full if full in log else key for key, full in keys.items()}
    own = {key: full for key, full in stored.items() if full in log}
    return Lazily(own, lambda key: guide_value(key, own[key], log, torch_log))


def not_judged(keys: Sequence[Key], logs: Logs) -> tuple[set[Key], list[str]]:
    """The keys that are passed over, and a note for each reason."""
    lacking = [key for key in keys if logs.missing(key)]
    unlike = {key for key in keys if _is_another_choice(key, logs)}
    own = {k for k in lacking if any(c.startswith(f"{OWN} ") for c in logs.classes_of(k))}
    alone = [key for key in lacking if key in own or _is_left_out(key, logs)]
    called = [key for key in lacking if key not in alone and _is_called_otherwise(key, logs)]
    notes = []
    if unlike:
        key = min(map(str, unlike))
        notes.append(Kind.CHOICES_PASSED_OVER(count=len(unlike), key=key))
    if alone:
        notes.append(Kind.MODULES_PASSED_OVER(count=len(alone), key=str(alone[0])))
    if called:
        notes.append(Kind.INPUTS_PASSED_OVER(count=len(called), key=str(called[0])))
    return {*unlike, *alone, *called}, notes


def _is_left_out(key: Key, logs: Logs) -> bool:
    """True for a value of a layer without parameters that only one side's model has at all.

    A port may call F.relu where the reference has a ReLU: that layer is then no probe there.
    Nor are layers that the other side has in one, where case.py's convert fuses their weights.
    """
    sides = [logs.sidecars[name].modules for name in _FLOAT32]
    if not all(sides) or key.kind not in ("", "grad_of"):
        return False
    name = key.module(sides[0].keys() | sides[1].keys(), key.prefix)
    parameters = [modules[name] for modules in sides if name in modules]
    converted = logs.sidecars["cand32"].converted
    return len(parameters) == 1 and (parameters[0] == 0 or name in converted)


def _is_another_choice(key: Key, logs: Logs) -> bool:
    """True for a model's own argmax, topk or sort whose scores the other side has not.

    Only the two calls' names say that they are one choice (common/sides/choices.py).
    """
    if CHOICE not in logs.classes_of(key) or logs.missing(key):
        return False
    parts = (key.of_choice(""), key.of_choice("scores"))
    shapes = [[np.shape(logs.get(side, part)) for part in parts] for side in _FLOAT32]
    return shapes[0] != shapes[1]


def _is_called_otherwise(key: Key, logs: Logs) -> bool:
    """True for an input of a module whose outputs both sides have: those are what it did.

    A gradient that one side alone has is a fault, unless a module there works in place.
    """
    if not key.is_input:
        return False
    if key.kind == "grad_of" and not logs.missing(key.value):
        if not any(name.endswith(IN_PLACE) for name in logs.classes_of(key.value)):
            return False
    output = key.output
    sides = [logs[name] for name in _FLOAT32]
    return all(output in log or any(k.startswith(f"{output}/") for k in log) for log in sides)


def class_of(key: Key, classes: Mapping[str, str]) -> str:
    """The class of the module that a row belongs to; of a parameter's row, its owner's."""
    if key.is_input and key.kind != "grad_of":
        return ""  # the code between two modules made it; but its gradient is the module's work
    if str(key) in classes:
        return classes[str(key)]
    if not key.kind:
        return ""
    case = key.prefix.partition("/")[0] + "/" if key.prefix else ""
    for site in (key.site, parent_of(key.site)):
        for prefix in (case, ""):
            if prefix + site in classes:
                return classes[prefix + site]
    return ""
