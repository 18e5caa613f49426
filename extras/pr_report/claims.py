"""The lines of a report's summary, the maintainers' limits that they meet, and what is missing.

What was measured and its limit are a word of words.toml with its fields (of which `what` is a word
too), or None.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from twincheck.common.logs.result_folder import (
    AGREEMENT_FILE,
    CERTIFICATE_FILE,
    GENERATION_FILE,
    TRAINERS_FILE,
)
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.door import for_others
from twincheck.common.system.reasons import read_reason
from twincheck.common.verdict.row import FAILING
from twincheck.extras.pr_report import tables
from twincheck.extras.pr_report.results import Found, Run

AGREEMENT = 0.998
Told = tuple[str, dict[str, object]] | None


@dataclass(frozen=True)
class Kind:
    """For whom a report is: what is measured of an output against which limit."""

    forward: tuple[str, float]  # mean or max of an output's difference
    half: tuple[str, float]


KINDS = {
    "formers": Kind(("mean", 1e-2), ("mean", 1e-2)),
    "vision": Kind(("max", 1e-4), ("max", 1e-2)),
    "contest": Kind(("mean", 1e-5), ("mean", 1e-2)),
}


@dataclass(frozen=True)
class Claim:
    """A line of the summary: what was measured, their limit and whether it is met, our verdict."""

    evidence: str
    run: str  # which result
    measured: Told
    limit: Told
    met: bool | None
    verdict: str
    red: bool
    said: str = ""  # what is wrong, in the check's own words


def claims(found: Found, kind: Kind) -> list[Claim]:
    """Return the lines of every result; none is left out, least of all a red one."""
    told = [one for name in EVIDENCE for one in EVIDENCE[name][0](found, kind)]
    runs = {one.run for one in told}
    return told + [
        _claim("other", run, ("rows_count", {"count": len(run.said["rows"])}))
        for run in found.runs
        if run.name not in runs
    ]


def missing(found: Found, told: Sequence[Claim]) -> dict[str, str]:
    """Return what of today's reports has no result, with the command that makes one."""
    there = {one.evidence for one in told}
    shapes = [row["shape"] for run in found.runs for row in run.said["outputs"].values()]
    if shapes and all(len(shape) < 3 for shape in shapes):  # as a classifier's: it writes nothing
        there.add("generation")
    return {n: _command(EVIDENCE[n][1], found) for n in EVIDENCE if n not in there}


def commands(found: Found) -> list[str]:
    """Return the commands that made the results."""
    made = [run.said["command"] for run in found.runs]
    made += [_command(command, found) for name, command in _MAKERS.items() if found.plain.get(name)]
    return list(dict.fromkeys(made))


def _command(command: Sequence[str], found: Found) -> str:
    """A command for this pair, with the Pythons that its other checks were given."""
    folder, words = ROOT / found.pair, list(command)
    words[1:1] = [folder if folder.is_dir() else found.pair]
    if not any(run.sides["paddle"].loader for run in found.runs):
        words = [word for word in words if word != "--round-trip"]  # without `load` the usual
    for run in found.runs:
        told = shlex.split(run.said["command"])
        for option in ("--torch-python", "--paddle-python"):
            if option in told and option not in words:
                words += [option, told[told.index(option) + 1]]
    return for_others(*words)


def number(value: float | None) -> str:
    """Return a difference in three digits; 0 is exactly 0."""
    return "–" if value is None else "0" if value == 0 else f"{value:.2e}"


def _largest(what: str, value: float | None) -> Told:
    return "largest", {"what": what, "value": number(value)}


def _claim(
    evidence: str, run: Run, measured: Told, limit: Told = None, passed: bool | None = None
) -> Claim:
    """A claim on a run: its verdict, and where it is red what its check said first."""
    said = run.said
    told = said.get("headline_reasons") or [said.get("headline", "")]
    return Claim(
        *(evidence, run.name, measured, limit, passed),
        *(said["verdict"], run.red, read_reason(told[0])),
    )


# ---- the steps


def _forward(found: Found, kind: Kind, half: bool = False) -> Iterator[Claim]:
    measure, limit = kind.half if half else kind.forward
    for run in found.of(1, half):
        values = [output[measure] for output in run.facts["outputs"]]
        off = None if not values or None in values else max(values)
        passed = None if not values else off is not None and off < limit
        below = ("below", {"what": measure, "value": f"{limit:g}"})
        yield _claim("half" if half else "forward", run, _largest(measure, off), below, passed)


def _half(found: Found, kind: Kind) -> Iterator[Claim]:
    yield from _forward(found, kind, half=True)
    for run in [*found.of(3, True), *found.of(4, True)]:
        yield _claim("half", run, worse(run))


def worse(run: Run) -> Told:
    """Return how many tensors Paddle computes less exactly than PyTorch in half precision."""
    count = sum(row["verdict"] == "PRECISION" for row in run.said["rows"])
    return "worse", {"count": count, "of": len(run.said["rows"])}


def _top(found: Found, kind: Kind) -> Iterator[Claim]:
    """Their measure: the ids at one position, that of the next token; the worst case's."""
    told = tables.top_outputs(found)
    for run in {id(run): run for run, _ in told}.values():
        own = [one for r, one in told if r is run]
        same = [sum(map(int.__eq__, *one["next_ids"])) for one in own]
        least = min(range(len(own)), key=lambda i: same[i] / own[i]["top"])
        every, positions = (sum(one[name] for one in own) for name in ("same_top", "positions"))
        fields = {"same": same[least], "of": own[least]["top"], "every": every, "all": positions}
        passed = same[least] == own[least]["top"]
        yield _claim("top", run, ("same_ids", fields), ("percent", {"value": "100"}), passed)


def _guided(found: Found, kind: Kind, step: int, evidence: str) -> Iterator[Claim]:
    """Claims on a step of which the guide asks for logs; of gradients it asks for none."""
    for run in found.of(step):
        if evidence == "optimizer" and not tables.optimizers(run):
            continue
        measured, passed = _measured(run, evidence), run.said["guide_passed"]
        if passed is None or evidence == "gradients":
            yield _claim(evidence, run, measured)
        else:
            limit = ("guide_limit", {"value": f"{run.said['guide_threshold']:g}"})
            yield _claim(evidence, run, measured, limit, passed)


def _measured(run: Run, evidence: str) -> Told:
    """The largest difference of what the guide asks for in a step; of gradients, of all."""
    told = run.facts
    if evidence == "gradients":
        rows = [row for keyed in tables.gradients(run).values() for _, row in keyed]
        return _largest("max", tables.largest(rows, "max_abs"))
    if evidence == "metric":
        pairs = [(torch, paddle) for _, torch, paddle, _ in told["scores"]]
    else:
        losses = {k: v for k, v in told["values"].items() if k.rpartition("/")[2] == "loss"}
        asked = [both for key, both in losses.items() if re.search(r"(^|/)sgd/\d{3}/", key)]
        pairs = asked or list(losses.values())  # of an optimizer's steps the guide asks for SGD's
    values = [None if None in both else abs(both[0] - both[1]) for both in pairs]
    off = None if not values or None in values else max(values)
    return _largest("score_difference" if evidence == "metric" else "loss_difference", off)


def _training(found: Found, kind: Kind) -> Iterator[Claim]:
    for run in found.of(5):
        told = run.facts.get("training") or {}
        measured = _largest("loss_difference", told.get("largest"))
        yield _claim("training", run, measured, ("by_eye", {}))


# ---- other commands


def plain_name(said: dict, step: str) -> str:
    """Return which result of another command a line is of."""
    more = [
        f"{n} {said[n]}" for n in ("dtype", "preset", "seed", "device") if said.get(n) is not None
    ]
    return ", ".join([step, *more])


def _plain_claim(evidence, said, step, measured, limit, passed) -> Claim:
    red = bool(said["exit_code"])
    why = _said(said) if red else ""
    return Claim(
        evidence, plain_name(said, step), measured, limit, passed, said["verdict"], red, why
    )


def _said(said: dict) -> str:
    """Return what a red result of another command says first, in its own words."""
    rows = (row for row in said.get("rows", []) if row.get("verdict") in FAILING)
    told = (said.get("reasons") or said["problems"]) if said.get("problems") else []
    told = [*told, *(reason for row in rows for reason in row["reasons"])]
    return read_reason(next(iter(told), ""))


def _generation(found: Found, kind: Kind) -> Iterator[Claim]:
    for _, said in found.plain[GENERATION_FILE]:
        share = said["equal"] / said["tokens"] if said["tokens"] else 0.0
        fields = {"same": said["equal"], "of": said["tokens"], "share": f"{100 * share:.2f}"}
        limit = ("percent", {"value": "100"})
        passed = bool(said["tokens"]) and said["equal"] == said["tokens"]
        yield _plain_claim("generation", said, "generation", ("same_of", fields), limit, passed)


def _agreement(found: Found, kind: Kind) -> Iterator[Claim]:
    for _, said in found.plain[AGREEMENT_FILE]:
        least = min((one["top1"]["share"] for one in said["choices"]), default=None)
        measured = None if least is None else ("percent", {"value": f"{100 * least:.4f}"})
        passed = None if least is None else least >= AGREEMENT
        limit = ("at_least", {"value": "99.8"})
        yield _plain_claim("agreement", said, "agreement", measured, limit, passed)


def _trainers(found: Found, kind: Kind) -> Iterator[Claim]:
    for _, said in found.plain[TRAINERS_FILE]:
        first = said["first"]
        fields = {"step": first["step"], "value": number(first["difference"])}
        measured, limit = ("first_loss", fields), ("by_eye", {})
        yield _plain_claim("trainers", said, "trainers", measured, limit, None)


def _weights(found: Found, kind: Kind) -> Iterator[Claim]:
    for _, said in found.plain[CERTIFICATE_FILE]:
        off = tables.unequal(said["rows"], "read_back", "paddle_to_torch")
        measured = ("entries_off", {"count": off, "of": len(said["rows"])})
        told = said | {"verdict": "IDENTICAL" if said["certified"] else "DIVERGED"}
        limit = ("difference_zero", {})
        yield _plain_claim("weights", told, "certificate", measured, limit, said["certified"])


_MAKERS = {
    GENERATION_FILE: ("check-generate",),
    AGREEMENT_FILE: ("step2", "--agree", "DATA"),
    TRAINERS_FILE: ("step5", "--torch-losses", "FILE", "--paddle-losses", "FILE"),
    CERTIFICATE_FILE: ("certificate", "--round-trip"),
}
# What of today's reports a reader asks for, in the order of the summary -> its lines there, and the
# command that makes its result.
EVIDENCE: dict[str, tuple[Callable[[Found, Kind], Iterator[Claim]], tuple[str, ...]]] = {
    "forward": (_forward, ("step1",)),
    "half": (_half, ("step1", "--dtype", "bfloat16", "--out", "bf16")),
    "generation": (_generation, _MAKERS[GENERATION_FILE]),
    "top": (_top, ("step1",)),
    "agreement": (_agreement, _MAKERS[AGREEMENT_FILE]),
    "weights": (_weights, _MAKERS[CERTIFICATE_FILE]),
    "training": (_training, ("step5",)),
    "trainers": (_trainers, _MAKERS[TRAINERS_FILE]),
    "metric": (partial(_guided, step=2, evidence="metric"), ("step2",)),
    "loss": (partial(_guided, step=3, evidence="loss"), ("step3",)),
    "gradients": (partial(_guided, step=4, evidence="gradients"), ("step4",)),
    "optimizer": (partial(_guided, step=4, evidence="optimizer"), ("step4",)),
}
