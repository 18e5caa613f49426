"""Judge whole logs: every tensor of two sides, in the reference's order, and where it starts.

`judge_logs` streams up to five logs tensor by tensor; `check_independence` asks their sidecars
whether two frameworks really made them.  NumPy only.
"""

import os
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from common.logs.pickle_machine import escaped
from common.logs.reader import read_log
from common.logs.sidecar import CHOICE, IN_PLACE, OWN, Sidecar, read_sidecar
from common.verdict.choices import Choice, judge_choice
from common.verdict.context import Gauges, Inherited, Terms
from common.verdict.independence import ENOUGH_FLOATS, transplanted
from common.verdict.origins import Streams, parent_code
from common.verdict.row import FAILING, Row, exit_code, worst
from common.verdict.rule import judge_tensor, largest_scale, note_gradient
from common.verdict.tolerances import tolerance

# Path components that name a kind of tensor: its tensors share one cap, and have no batch axis.
KINDS = ("grad", "grad_of", "weight", "moment1", "moment2", "velocity")
GRADIENTS = ("grad", "grad_of")
OPTIMIZER = ("weight", "moment1", "moment2", "velocity", "lr")

# Constants that Paddle 3.3.1 keeps in float32 even in a float64 model, and the relative gap that
# each leaves (measured); by the class or the function that has it.
_EPSILON = "keeps {name}'s epsilon in float32 (a gap of about 1.3e-8 * eps / (variance + eps))"
_CONSTANTS = {
    "pow": "keeps pow's exponent in float32 (abs(x)**0.3: 1.4e-8)",
    "label_smooth": "keeps label_smooth's epsilon in float32 (2.0e-8)",
    "selu": "keeps selu's scale and alpha in float32 (2.5e-8)",
    "avgpool2d": "keeps a float32 factor in avg_pool2d's gradient (7.5e-9)",
    "elu": "keeps elu's alpha in float32 (4.5e-10)",
    "running_mean": "keeps BatchNorm's momentum in float32 (6e-8 / (1 - momentum))",
    "running_var": "keeps BatchNorm's momentum in float32 (6e-8 / (1 - momentum))",
    "hardsigmoid": "keeps hardsigmoid's slope in float32 (gradient 1.8e-7)",
    "momentum": "keeps Momentum's coefficient in float32 (velocity 9.3e-8 after 10 steps)",
    "clipgradbyglobalnorm": "clips by a norm to which torch adds 1e-6 (1.2e-7)",
}
_STATISTICS = ("running_mean", "running_var")
_NORMS = ("layernorm", "batchnorm", "groupnorm", "instancenorm", "rmsnorm", "localresponsenorm")
CAUSE_UNKNOWN = "a constant that one side keeps in float32; cause unknown"
CLIPPED = (
    "Paddle's softmax, log_softmax and cross_entropy take no logit for more than 64 below the "
    "largest (on CPU), and these are farther apart; logsumexp has no such limit"
)
NOISY_ADAM = "Paddle's float32 Adam and AdamW are 20 to 41 times noisier than torch's"

# `adam/003/grad/…` or `train/003/loss`, but not the third batch that was read (`test/003/…`).
_STEP = re.compile(r"(^|/)(?!batch/|test/)[^/]+/\d{3}/")

HARMLESS = ("IDENTICAL", "ROUNDING", "FLIP", "CLOSE")  # nothing to be traced to where it starts
RECENT = 4  # forward tensors that count as what the next one may be computed from
FILL = 1e3  # times the largest other value: what a mask puts in

# What a constant makes of a whole pass at other weights, against the same at the first weights.
CARRIED_MORE = 16.0
# `encoder.attention:in/mask#2`: the module, and which call of it.
_INPUT = re.compile(r"(.*):in/[^#@]*(.*)")


def constant_cause(name: str) -> str:
    """What Paddle keeps in float32 in a layer or function of this name."""
    plain = name.rsplit(".", 1)[-1].lower().replace("_", "")
    for known, cause in _CONSTANTS.items():
        if plain == known.replace("_", ""):
            return f"Paddle {cause}"
    if any(plain.rstrip("123d") == norm or plain == norm for norm in _NORMS):
        return "Paddle " + _EPSILON.format(name=name)
    return f"{CAUSE_UNKNOWN} ({name})" if name else CAUSE_UNKNOWN


@dataclass
class Judgement:
    """What judging two logs found: rows in the reference's order, and what they come to."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst row's verdict (INVALID where nothing was compared)."""
        return worst(row.verdict for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 aligned, 1 not aligned, 2 nothing was compared."""
        return exit_code(row.verdict for row in self.rows)

    @property
    def guide_passed(self) -> bool | None:
        """The guide's own rule on every row; None where there is none."""
        passed = [row.guide_passed is True for row in self.rows]
        return all(passed) if passed else None

    @property
    def first_row(self) -> Row | None:
        """The first row that is not aligned; CARRIED only where nothing else is."""
        bad = [row for row in self.rows if exit_code([row.verdict])]
        if self.exit_code == 0:
            return None
        return next((row for row in bad if row.verdict != "CARRIED"), bad[0] if bad else None)

    @property
    def first_diverged(self) -> str | None:
        """That row's key."""
        row = self.first_row
        return None if row is None else row.key

    def as_json(self) -> dict[str, object]:
        """The report that --json writes."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "guide_passed": self.guide_passed,
            "first_diverged": self.first_diverged,
            "notes": self.notes,
            "rows": [row.as_json() for row in self.rows],
        }


# ---- keys ---------------------------------------------------------------------------------------


def kind_of(key: str) -> tuple[str, str]:
    """A key's kind and its group, the path up to and including the kind; two empty texts if none.

    `main/adam/003/grad/head.bias` is a `grad` of the group `main/adam/003/grad`.
    """
    parts = key.split("/")
    for i, part in enumerate(parts[:-1]):
        if part in KINDS:
            return part, "/".join(parts[: i + 1])
    return "", ""


def _is_optimizer(key: str) -> bool:
    """True for what optimizer steps have touched, losses and gradients at their weights too."""
    return not set(OPTIMIZER).isdisjoint(key.split("/")) or bool(_STEP.search(key))


def _is_own_pass(key: str) -> bool:
    """True for the loss and gradients of an optimizer step, which no probe has looked into."""
    return bool(_STEP.search(key)) and set(OPTIMIZER).isdisjoint(key.split("/"))


def _batch_of(key: str, batch) -> int | None:
    """The batch size that holds for a key: one number, or one for each prefix (longest first)."""
    if not isinstance(batch, Mapping):
        return batch
    fits = [prefix for prefix in batch if key.startswith(prefix)]
    return batch[max(fits, key=len)] if fits else None


def _class_of(key: str, classes: Mapping[str, str]) -> str:
    """The class of the module that a row belongs to; of a parameter's row, its owner's."""
    if ":in/" in key and kind_of(key)[0] != "grad_of":
        return ""  # the code between two modules made it; but its gradient is the module's work
    if key in classes:
        return classes[key]
    kind, group = kind_of(key)
    if not kind:
        return ""
    case = group.split("/")[0] + "/" if group != kind else ""
    name = key[len(group) + 1 :]
    for site in (name, name.rpartition(".")[0]):
        for prefix in (case, ""):
            if prefix + site in classes:
                return classes[prefix + site]
    return ""


# ---- judging ------------------------------------------------------------------------------------

SIDES = {
    "ref32": "torch's float32 log",
    "cand32": "paddle's float32 log",
    "ref64": "torch's float64 log",
    "cand64": "paddle's float64 log",
    "local64": "paddle's single-step log",
}


class _Logs:
    """The logs of one judgement, those that there are, with their sidecars."""

    def __init__(self, stack: ExitStack, sources: Mapping[str, object]):
        self.logs: dict[str, Mapping[str, np.ndarray]] = {}
        self.sidecars = dict.fromkeys(sources, Sidecar())  # one that says nothing: none is there
        for name, source in sources.items():
            if source is None:
                continue
            if isinstance(source, Mapping):
                self.logs[name] = source
            else:
                self.logs[name] = stack.enter_context(read_log(source))
                self.sidecars[name] = read_sidecar(source) or Sidecar()

    def get(self, name: str, key: str) -> np.ndarray | None:
        log = self.logs.get(name)
        return log[key] if log is not None and key in log else None

    def is_own_module(self, key: str) -> bool:
        """True for a value of a module that is the model's own, not the framework's."""
        kinds = (self.sidecars[name].classes.get(key, "") for name in ("ref32", "cand32"))
        return any(kind.startswith(f"{OWN} ") for kind in kinds)

    def is_in_place(self, key: str) -> bool:
        """True for an input that its module writes into, whose gradient is not logged."""
        kinds = (self.sidecars[name].classes.get(key, "") for name in ("ref32", "cand32"))
        return any(kind.endswith(IN_PLACE) for kind in kinds)

    def is_left_out(self, key: str) -> bool:
        """True for a value of a layer without parameters that only one side's model has at all.

        A port may call F.relu where the reference has a ReLU: that layer is then no probe there.
        Nor are layers that the other side has in one, where case.py's convert fuses their weights.
        """
        has = [self.sidecars[name].modules for name in ("ref32", "cand32")]
        if not all(has):
            return False
        name = re.split("[:#@]", key.replace("grad_of/", "", 1))[0]
        while "/" in name and not any(name in modules for modules in has):
            name = name.rpartition("/")[0]  # `name/1` is an output of `name`
        found = [modules[name] for modules in has if name in modules]
        converted = self.sidecars["cand32"].converted
        return len(found) == 1 and (found[0] == 0 or name in converted)

    def transplanted(self) -> bool:
        """True where one framework computed operators of the other side."""
        return transplanted(self.sidecars.values())


def judge_logs(
    ref32: str | os.PathLike | Mapping[str, np.ndarray],
    cand32: str | os.PathLike | Mapping[str, np.ndarray],
    ref64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    cand64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    *,
    local64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    batch: int | Mapping[str, int | None] | None = None,
    step: object = "",
    model: str = "",
    until_off: bool = False,
) -> Judgement:
    """Judge a candidate's logs (paddle) against a reference's (torch).

    ref64, cand64  the float64 runs; without both of them no row is better than CLOSE
    local64        the candidate's float64 run fed with the reference's values, probe by probe: once
                   a row is off, the rows after it take their verdict from it, so that what was only
                   passed on is CARRIED and every origin is found
    batch          length of the batch axis, or one for each prefix of keys; None: the sidecar's
    until_off      end with the first row that is not HARMLESS: single-step logs will be wanted then
    Sidecars are read where there are any.  Raises LogError for a file that is no log.
    """
    sources = dict(ref32=ref32, cand32=cand32, ref64=ref64, cand64=cand64, local64=local64)
    with ExitStack() as stack:
        logs = _Logs(stack, sources)
        judgement = Judgement()
        if ("ref64" in logs.logs) != ("cand64" in logs.logs):
            missing = SIDES["cand64" if "ref64" in logs.logs else "ref64"]
            judgement.notes.append(f"{missing} is not there: the guide's rule decides")
            logs.logs.pop("ref64", None)
            logs.logs.pop("cand64", None)
        for name, side in (("ref32", "torch"), ("cand32", "paddle")):
            reason = logs.sidecars[name].no_float64
            if reason:
                judgement.notes.append(f"the {side} side has no float64 path: {escaped(reason)}")
        if batch is None:
            batch = logs.sidecars["ref32"].batches or logs.sidecars["ref64"].batches or None
        judge = _Judge(logs, batch, step, model)
        keys = _all_keys(logs.logs["ref32"], logs.logs["cand32"])
        alone = [
            key
            for key in keys
            if judge.missing(key) and (logs.is_own_module(key) or logs.is_left_out(key))
        ]
        unlike = {key for key in keys if judge.is_another_choice(key)}
        if unlike:
            judgement.notes.append(
                f"{len(unlike)} values of choices (argmax, topk, sort) that have another shape on "
                f"the other side were passed over, such as {min(unlike)}; their results are judged"
            )
        if alone:
            judgement.notes.append(
                f"{len(alone)} values of modules that one side alone has were passed over, such as "
                f"{alone[0]}"
            )
        rest = [key for key in keys if judge.missing(key) and key not in alone]
        otherwise = [key for key in rest if judge.called_otherwise(key)]
        if otherwise:
            judgement.notes.append(
                f"{len(otherwise)} inputs that one side alone gives to a module, or gives by place "
                f"and not by keyword, were passed over, such as {otherwise[0]}"
            )
        passed_over = {*alone, *otherwise, *unlike}
        for key in (key for key in keys if key not in passed_over):
            judgement.rows.append(judge.row(key))
            if until_off and judgement.rows[-1].verdict not in HARMLESS:
                break
        judgement.notes += _notes(judgement.rows, logs)
        return judgement


def _all_keys(ref: Mapping, cand: Mapping) -> list[str]:
    """The reference's keys in their order; those of the candidate alone where it made them."""
    behind: dict[str | None, list[str]] = {}
    last = None
    for key in cand:
        if key in ref:
            last = key
        else:
            behind.setdefault(last, []).append(key)
    return [*behind.get(None, []), *(k for key in ref for k in (key, *behind.get(key, [])))]


class _Judge:
    """Judges row after row, and remembers whether one was off already."""

    def __init__(self, logs: _Logs, batch, step, model):
        self.logs = logs
        self.batch = batch
        self.step, self.model = step, model
        self.off: set[str] = set()  # the cases in which a row is off already
        self.failing: set[str] = set()  # those in which one does not pass
        self.carried: dict[str, float] = {}  # case -> gap / size that its constants may make
        # case -> sizes of the last forward tensors, which the next one is likely computed from
        self.recent: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self.terms: dict[str, Terms] = {}  # case -> how long its sums may be
        self.inherited: dict[str, Inherited] = {}  # case -> how noisy its tensors were
        self.cases = [*logs.sidecars["ref32"].batches]
        self.caps = _caps(logs.logs.get("ref64", logs.logs["ref32"]))
        self.modules: dict[str, set[str]] = {}  # case -> the names of its probed modules
        self.streams = Streams()
        self.gauges = Gauges()
        self.choices = {name: logs.sidecars[name].choices for name in logs.logs}

    def row(self, key: str) -> Row:
        row = self.compared(key)
        row.step, row.model = self.step, self.model
        fine = row.verdict in ("IDENTICAL", "ROUNDING")
        case = self.case_of(key)
        if case in self.off:
            row = self.localised(key, row)
        elif not fine and (row.verdict != "CLOSE" or self.logs.get("ref64", key) is not None):
            row.origin = row.verdict != "CLOSE"
            self.off.add(case)
            if row.verdict in FAILING and self.logs.get("local64", key) is not None:
                self.came_around(key, case)  # the first of its kind
        if row.origin and row.verdict in FAILING:
            self.failing.add(case)
        self.explain(row)
        return row

    def case_of(self, key: str) -> str:
        """The prefix of the case that a key belongs to: cases are runs of their own."""
        fits = [prefix for prefix in self.cases if key.startswith(prefix)]
        return max(fits, key=len, default="")

    def missing(self, key: str) -> str:
        """Which logs lack the key that others of their precision have; empty where none does."""
        logs = self.logs.logs
        lacking = [name for name in ("ref32", "cand32") if key not in logs[name]]
        if "ref64" in logs and (key in logs["ref64"]) != (key in logs["cand64"]):
            lacking += [name for name in ("ref64", "cand64") if key not in logs[name]]
        if lacking == ["cand32"] or lacking == ["cand32", "cand64"]:
            return "missing on the paddle side"
        if lacking == ["ref32"] or lacking == ["ref32", "ref64"]:
            return "missing on the torch side"
        return "missing in " + " and ".join(SIDES[name] for name in lacking) if lacking else ""

    def is_another_choice(self, key: str) -> bool:
        """True for a model's own argmax, topk or sort whose scores the other side has not.

        Only the two calls' names say that they are one choice (common/sides/torch_choices.py).
        """
        kinds = (self.logs.sidecars[name].classes.get(key) for name in ("ref32", "cand32"))
        if CHOICE not in kinds or self.missing(key):
            return False
        name = key.removesuffix(":scores").removesuffix(":margin")
        rows = (name, f"{name}:scores")
        shapes = [
            [np.shape(self.logs.get(side, row)) for row in rows] for side in ("ref32", "cand32")
        ]
        return shapes[0] != shapes[1]

    def called_otherwise(self, key: str) -> bool:
        """True for an input of a module whose outputs both sides have: those are what it did.

        A gradient that one side alone has is a fault, unless a module there works in place.
        """
        found = _INPUT.fullmatch(key)
        if found is None:
            return False
        if "grad_of/" in key:
            value = "".join(key.split("grad_of/", 1))
            if not self.missing(value) and not self.logs.is_in_place(value):
                return False
        name = found[1] + found[2]
        logs = [self.logs.logs[side] for side in ("ref32", "cand32")]
        return all(name in log or any(k.startswith(f"{name}/") for k in log) for log in logs)

    def compared(self, key: str) -> Row:
        """A row's verdict from the runs as they were."""
        note = self.missing(key)
        if note:
            return Row(key, "INVALID", note=note)
        if key in self.choices["ref32"] or key in self.choices.get("ref64", {}):
            row = self.choice(key, "cand64")
            if row is not None:
                return row
        arrays = [self.logs.get(name, key) for name in ("ref32", "cand32", "ref64", "cand64")]
        row = self.judged(key, *arrays)
        if arrays[2] is not None and not kind_of(key)[0] and not _STEP.search(key):
            self.recent[self.case_of(key)].append(largest_scale([_unmasked(arrays[2])]))
        if "ref64" in self.logs.logs and arrays[2] is None:
            row.note = "; ".join(filter(None, (row.note, "not in the float64 logs")))
        if kind_of(key)[0] in GRADIENTS and row.verdict != "INVALID":
            case = self.case_of(key)
            if key.startswith(f"{case}grad/") and row.noise_ref is not None:
                self.gauges.find(case + key[len(f"{case}grad/") :], arrays)
            pair = arrays[:2] if arrays[2] is None else arrays[2:]
            note_gradient(row, *pair)
        return row

    def judged(self, key: str, ref32, cand32, ref64, cand64) -> Row:
        kind, group = kind_of(key)
        arrays = [ref32, cand32, ref64, cand64]
        excused = 0
        if kind == "weight" and group.count("/") and all(a is not None for a in arrays):
            excused = self.gauges.excuse(self.case_of(key) + key.partition("/weight/")[2], arrays)
            ref32, cand32, ref64, cand64 = arrays
        row = self._judged(key, kind, group, ref32, cand32, ref64, cand64)
        if excused:
            row.note = "; ".join(
                filter(None, (row.note, f"{excused} values moved by the noise of a zero gradient"))
            )
        return row

    def scores_size(self, key: str, ref64) -> float:
        """For the margin of a choice: the size of the scores that it is a difference of; else 0."""
        if not key.endswith(":margin"):
            return 0.0
        scores = self.logs.get("ref32" if ref64 is None else "ref64", f"{key[:-7]}:scores")
        return 0.0 if scores is None else largest_scale([scores[np.isfinite(scores)]])

    def constant_allowed(self, key: str) -> float:
        """How far a constant kept in float32 may bring this row, as a part of its size."""
        if key.endswith(_STATISTICS):
            return tolerance("constant_statistics")
        usual = tolerance("constant")
        if self.logs.sidecars["ref32"].classes.get(key) != "LayerNorm":
            return usual
        name, calls = re.fullmatch(r"(.*?)((?:[@#]\d+)*)", key).groups()
        values = self.logs.get("ref64", f"{name}:in/0{calls}")
        if values is None or values.ndim == 0 or not np.isfinite(values).all():
            return usual
        # Its epsilon is all that is kept: what it weighs against the least variance.
        variance = float(values.var(axis=-1).min())
        epsilon = tolerance("largest_epsilon")
        return min(usual, tolerance("constant_epsilon") * epsilon / (variance + epsilon))

    def _judged(self, key: str, kind: str, group: str, ref32, cand32, ref64, cand64) -> Row:
        case = self.case_of(key)
        terms = self.terms.setdefault(case, Terms())
        return judge_tensor(
            key,
            ref32,
            cand32,
            ref64,
            cand64,
            cap=self.caps.get(group),
            batch=None if kind or _is_optimizer(key) else _batch_of(key, self.batch),
            optimizer=(kind or "loss") if _is_optimizer(key) else "",
            terms=terms.after(ref32),
            local=cand32 is ref32,
            part_of=self.scores_size(key, ref64),
            masks=bool(self.logs.sidecars["ref32"].classes.get(key)) and not kind,
            constant=self.constant_allowed(key),
            # A single step inherits nothing; it has no float32 run either.
            inherited=None if cand32 is ref32 else self.inherited.setdefault(case, Inherited()),
            fed=0.0 if kind or ref64 is None else max(self.recent[self.case_of(key)], default=0.0),
        )

    def choice(self, key: str, candidate64: str) -> Row | None:
        """The verdict of a discrete choice; None where a log lacks what it takes."""
        runs = {name: self.read_choice(name, key) for name in self.logs.logs}
        base = "ref64" if runs.get("ref64") else "ref32"
        ledger = self.choices[base].get(key)
        margin = self.logs.get(base, ledger.get("margin", "")) if ledger else None
        others = {"cand32": runs["cand32"]}
        if base == "ref64":
            others |= {"ref32": runs["ref32"], candidate64: runs.get(candidate64)}
        if runs[base] is None or margin is None or None in others.values():
            return None
        return judge_choice(
            key, runs[base], margin, others.get("ref32"), runs["cand32"], others.get(candidate64)
        )

    def local_choice(self, key: str) -> Row | None:
        """The same on the reference's values; there is no float32 local run."""
        runs = {name: self.read_choice(name, key) for name in ("ref64", "local64")}
        margin = self.logs.get("ref64", self.choices["ref64"].get(key, {}).get("margin", ""))
        if margin is None or None in runs.values():
            return None
        return judge_choice(key, runs["ref64"], margin, None, None, runs["local64"])

    def read_choice(self, name: str, key: str) -> Choice | None:
        ledger = self.choices[name].get(key)
        scores = self.logs.get(name, ledger.get("scores", "")) if ledger else None
        choice = self.logs.get(name, key)
        return None if scores is None or choice is None else Choice(choice, scores)

    def localised(self, key: str, row: Row) -> Row:
        """A row after one that is off: judged from the reference's values, if such a log is there.

        The local row's float32 noise is the reference's own: there is no float32 local run.
        """
        local = self.logs.get("local64", key)
        if local is None or self.logs.get("ref64", key) is None or row.verdict == "PRECISION":
            return row  # PRECISION: the gap is rounding's although something above is off
        if row.verdict == "FLIP":
            row.origin = True
            return row  # rounding decided here, whatever is off above
        ref32, ref64 = self.logs.get("ref32", key), self.logs.get("ref64", key)
        here = self.local_choice(key) if key in self.choices["ref32"] else None
        here = here or self.judged(key, ref32, ref32, ref64, local)
        case = self.case_of(key)
        if here.verdict in ("IDENTICAL", "ROUNDING"):
            if row.verdict not in ("IDENTICAL", "ROUNDING"):
                self.carry(row, case, "right on the reference's input")
            return row
        if _is_own_pass(key) and here.verdict != "CONSTANT":
            # The whole model at the reference's weights: what is off above is off in here too.
            if case in self.failing:
                return row
            if here.gap is not None and here.gap <= self.carried.get(case, 0.0) * here.scale:
                self.carry(row, case, "no more than the same constant makes at the first weights")
                return row
        if here.verdict in FAILING and row.verdict in FAILING and self.came_around(key, case):
            row.verdict = "CARRIED"
            why = "the code around the modules, off above, brings it"
            row.note = "; ".join(filter(None, (row.note, why)))
            return row
        here.mean_abs, here.max_abs = row.mean_abs, row.max_abs
        here.guide_passed, here.noise_cand = row.guide_passed, row.noise_cand
        here.step, here.model, here.origin = row.step, row.model, True
        notes = dict.fromkeys(filter(None, (here.note, row.note, "on the reference's input")))
        here.note = "; ".join(notes)
        return here

    def came_around(self, key: str, case: str) -> bool:
        """True where the parent's code was off before, and this is the same once more."""
        if case not in self.modules:
            found = self.logs.sidecars["ref32"].modules
            self.modules[case] = {name[len(case) :] for name in found if name.startswith(case)}
        parent = parent_code(key, case, self.modules[case])
        if parent is None:
            return False
        arrays = (self.logs.get("ref64", key), self.logs.get("local64", key))
        return self.streams.explains(case, parent, key, *arrays)

    def carry(self, row: Row, case: str, why: str) -> None:
        """Make a row CARRIED, and remember how far off a pass of the model can be by that."""
        row.verdict = "CARRIED"
        row.note = "; ".join(filter(None, (row.note, why)))
        if row.gap is not None and row.scale and not _is_own_pass(row.key):
            ratio = CARRIED_MORE * row.gap / row.scale
            self.carried[case] = max(self.carried.get(case, 0.0), ratio)

    def explain(self, row: Row) -> None:
        """Name the cause of a CONSTANT, and of an optimizer row's PRECISION."""
        cause = ""
        if row.verdict == "CONSTANT":
            sidecars = self.logs.sidecars
            classes = sidecars["cand64"].classes or sidecars["cand32"].classes
            local = row.key.rpartition(":")[2]
            name = local if local in _STATISTICS else _class_of(row.key, classes)
            cause = constant_cause(name)
        elif row.verdict == "PRECISION" and "/adam" in f"/{row.key}" and _is_optimizer(row.key):
            cause = NOISY_ADAM
        elif row.origin and row.verdict == "DIVERGED":
            cause = _gradient_cause(row.key) or self.loss_cause(row.key)
        if cause:
            row.note = f"{row.note}; {cause}" if row.note else cause

    def loss_cause(self, key: str) -> str:
        """Why a loss is off although its logits agree: they lie farther apart than Paddle goes."""
        case = self.case_of(key)
        name = key[len(case) :]
        logits = self.logs.get("ref64", f"{case}logits")
        if (name != "loss" and not name.startswith("losses/")) or logits is None:
            return ""
        if logits.ndim == 0 or not np.isfinite(logits).all():
            return ""
        return CLIPPED if float(np.ptp(logits, axis=-1).max()) > 64.0 else ""


def _gradient_cause(key: str) -> str:
    """Where to look when the gradient at a module's output is wrong; empty for other rows."""
    kind, group = kind_of(key)
    if kind != "grad_of" or ":in/" in key:
        return ""
    site = key[len(group) + 1 :].split("/")[0]
    parent = site.rpartition(".")[0] or "the model itself"
    return (
        f"wrong before it comes back to this output: look in {parent} at the code that uses the "
        "output, and at any backward written there by hand"
    )


def _unmasked(values: np.ndarray) -> np.ndarray:
    """The values without what a mask put in: the same number at several places, far above the rest.

    Softmax makes nothing of -1e9 or of the lowest float, so they are not what is computed with.
    """
    if values.dtype.kind != "f" or values.size < 2:
        return values
    sizes = np.abs(values)
    fill = sizes == sizes.max()
    rest = sizes[~fill]
    if np.count_nonzero(fill) > 1 and rest.size and sizes.max() / FILL > rest.max():
        return values[~fill]
    return values


def _caps(log: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Group -> S, the largest rms of its tensors in the reference."""
    caps: dict[str, float] = {}
    for key in log:
        group = kind_of(key)[1]
        if group:
            caps[group] = max(caps.get(group, 0.0), largest_scale([log[key]]))
    return caps


def _notes(rows: Iterable[Row], logs: _Logs) -> list[str]:
    """What a reader must know beside the rows."""
    rows = list(rows)
    notes = []
    if not rows:
        notes.append("nothing was compared: the logs have no key in common")
    if "ref64" not in logs.logs:
        notes.append("float32 logs alone: a wrong port that is close cannot be told from rounding")
    measured = [row for row in rows if row.max_abs is not None and row.scale is not None]
    alike = measured and not any(row.max_abs for row in measured)
    if alike and sum(row.size for row in measured) >= ENOUGH_FLOATS and not logs.transplanted():
        notes.append(
            "every float is the same to the last bit on both sides: two frameworks seldom agree "
            "so; were both logs made by one?"
        )
    capped = sum(row.capped for row in rows)
    if capped:
        allowed = tolerance("cap")
        notes.append(f"{capped} rows are noisier than {allowed:g} of their scale: capped")
    empty = sum(row.note.endswith("noise on both sides") for row in rows)
    if empty:
        notes.append(
            f"{empty} gradients are zero in exact arithmetic: their agreement shows nothing"
        )
    return notes


# ---- provenance ---------------------------------------------------------------------------------
