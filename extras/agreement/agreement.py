"""What an agreement on data came to: which choices differ, and whether rounding decides them.

NumPy only; check_step2.py --agree fills it.  It leaves agreement.json in step 2's folder of the
model's results, step2_metric/log/MODEL/agreement.json (with --out DIR, DIR/step2_metric/MODEL/…):

schema     1
model      the pair's name; `pair`: its folder; `preset`, `weights` (--weights, else "perturbed"),
           `weights_sha256` (of the weights that both sides computed with), `seed`, `device`,
           `dtype` ("float32": what is compared)
versions   {torch, paddle}: of the frameworks; `time` when it ended; `elapsed_s` of the last run
sources    {torch, paddle}: the pair's files that the side has read, and their hashes
data       path, kind (npz, files or text), examples (how many were compared), sha256 (of every
           array that both sides were fed, in order), arrays {name: "dtype[shape of one example]"}
verdict    IDENTICAL (no choice differs), FLIP (some do, and rounding decides each of them),
           DIVERGED, or INVALID (logits that are NaN); `exit_code` 0 or 1 (with 2: no file)
thresholds {"maintainers": 0.998 of top-1, "ours": "no DIVERGED"}; `reached`: whether the share of
           equal top-1 is at least theirs (the worst of `choices` where there are several)
choices    a list, of each output that is chosen from ("logits", or what the pair's hook names):
    name             its name
    by               "top" (of scores) or "hook" (integers that the pair's `agreement` gives)
    decisions        how many there are: examples, or tokens that are no padding
    classes          how many scores each has; null of integers
    top1             {equal, share}: how many decisions are the same on both sides, 0 to 1
    top5             {k, same_set, set_share, same_order, order_share}: of the k = min(5, classes)
                     largest scores; null of integers
    scores           {largest, of}: the largest difference of both sides' float32 scores of a class
                     that both have at the same place of their top k, and the largest such score;
                     null of integers
counts     {disagreements, FLIP, DIVERGED, INVALID, unjudged}: of all decisions whose ordered top k
           differ.  `unjudged`: further ones; 100 had diverged, and no more were run again
disagreements    the first 1,000 of them, those that decide first, each:
    example          its number in the data, from 0
    source           the file it is from, the line's number, or ""
    choice           the name; `position`: the index behind the example's axis, a list ([] where an
                     example is one decision; a token's number)
    rank             from 1, of the first place of the ordered top k that differs: 1 is top-1
    torch, paddle    what each side chose there, in float32
    top_torch, top_paddle   the ordered top k of each side; [choice] of integers
    margin           how far apart the reference's float64 scores of the two choices are, the
                     widest of all ranks that differ; null of integers, and without a float64 run
    noise            {torch, paddle}: the largest difference of that side's float32 scores from its
                     own float64 scores, of that example alone, run again; null as above
    gap              the largest difference of both sides' float64 scores (of integers: outputs)
    allowed          what the margin may be: 2 (noise of torch + noise of paddle)
    verdict          FLIP, DIVERGED or INVALID
    said             a sentence: why
notes      sentences: what was left out, cut or not measured

Numbers that are undefined are null.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.tolerances import tolerance
from twincheck.extras.agreement import Kind

SCHEMA = 1
MAINTAINERS = 0.998  # of top-1, what reviewers of ports of vision models ask for
LISTED = 1000
STOP = 100  # so many diverged: further ones are counted and not run again
# What the sides' float64 scores may differ by, and both still be one function: a constant that one
# side keeps in float32, or this part of the reference's own float32 noise, which has grown alike.
PART_OF_NOISE = 0.1
# Paddle's noise excuses no more than so many times the reference's, as PRECISION allows it.
LESS_EXACT = tolerance("precision")
SEVERITY = ("IDENTICAL", "FLIP", "DIVERGED", "INVALID")


@dataclass
class Found:
    """A decision in which the sides' float32 runs differ."""

    row: int  # of its batch
    choice: str
    position: tuple[int, ...]
    rank: int  # from 1
    ids: dict[str, list[int]]  # side -> the ordered top k, or [choice] of integers
    scores: dict[str, list[float]]  # side -> theirs, in the run that found it
    # Side -> output -> the floats that a hook chose from, in that run.
    floats: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)


def compare(
    answers: Mapping[str, Mapping[str, np.ndarray]], mask: np.ndarray | None
) -> tuple[dict[str, dict], list[Found]]:
    """Return choice -> its counts, and every decision that differs, of both sides' answers.

    mask    (B, T), True: a token that counts
    Raises ValueError where the answers cannot be compared.
    """
    torch, paddle = (answers[side] for side in SIDES)
    if not np.array_equal(torch["fed"], paddle["fed"]):
        raise ValueError(Kind.FED_OTHERWISE())
    keys = [{k for k in each if k.startswith(("top/", "hook/"))} for each in (torch, paddle)]
    if keys[0] != keys[1]:
        raise ValueError(Kind.CHOSEN_FROM_OTHERS(outputs=(*sorted(keys[0] ^ keys[1]),)))
    counts, found = {}, []
    for key in (key for key in torch if key in keys[0]):
        by, _, name = key.partition("/")
        a, b = torch[key], paddle[key]
        if a.shape != b.shape:
            shapes = {"torch": str(list(a.shape)), "paddle": str(list(b.shape))}
            raise ValueError(Kind.SHAPES_DIFFER(name=name, **shapes))
        a, b = (ids[..., None] if by == "hook" else ids for ids in (a, b))
        kept = mask if mask is not None and mask.shape == a.shape[:-1] else np.ones(a.shape[:-1])
        kept = kept != 0
        valid = ((a >= 0) & (b >= 0)).all(axis=-1) if by == "top" else True
        same = {
            "equal": a[..., 0] == b[..., 0],
            "same_set": (np.sort(a, axis=-1) == np.sort(b, axis=-1)).all(axis=-1),
            "same_order": (a == b).all(axis=-1),
        }
        counts[name] = {
            "by": by,
            "classes": int(torch[f"classes/{name}"]) if by == "top" else None,
            "k": a.shape[-1],
            "decisions": int(kept.sum()),
            **{kind: int((kept & valid & each).sum()) for kind, each in same.items()},
            "largest": 0.0,
            "of": 0.0,
        }
        scores = [each[f"top_scores/{name}"] if by == "top" else None for each in (torch, paddle)]
        if by == "top":
            alike = (a == b) & kept[..., None] & (a >= 0)
            counts[name]["largest"] = float(_distance(*scores)[alike].max(initial=0.0))
            counts[name]["of"] = float(np.abs(_finite(scores[0]))[alike].max(initial=0.0))
        for index in map(tuple, np.argwhere(kept & ~(valid & same["same_order"])).tolist()):
            differing = np.flatnonzero(a[index] != b[index])
            one = Found(
                index[0],
                name,
                index[1:],
                int(differing[0]) + 1 if differing.size else 1,
                {side: ids[index].tolist() for side, ids in zip(SIDES, (a, b), strict=True)},
                {s: v[index].tolist() for s, v in zip(SIDES, scores, strict=True) if by == "top"},
            )
            if by == "hook":
                row = slice(index[0], index[0] + 1)
                one.floats = {side: _outputs(answers[side], row) for side in SIDES}
            found.append(one)
    return counts, found


def _outputs(answer: Mapping[str, np.ndarray], row: slice) -> dict[str, np.ndarray]:
    return {k[4:]: values[row] for k, values in answer.items() if k.startswith("out/")}


def judge(
    found: Found, runs: Mapping[tuple[str, str], Mapping[str, np.ndarray]], at: int
) -> dict[str, object]:
    """Return what agreement.json has of a decision beside the example: verdict and numbers.

    runs    (side, dtype) -> the answer to that example alone, run again
    at      the decision's place among the positions whose whole scores were asked for
    """
    told: dict[str, object] = {
        "choice": found.choice,
        "position": list(found.position),
        "rank": found.rank,
        **{side: found.ids[side][found.rank - 1] for side in SIDES},
        **{f"top_{side}": found.ids[side] for side in SIDES},
        **dict.fromkeys(("margin", "noise", "gap", "allowed")),
    }
    if found.scores and -1 in (found.ids[side][0] for side in SIDES):
        return told | {"verdict": "INVALID", "said": Kind.LOGITS_NAN()}
    if any((side, "float64") not in runs for side in SIDES):
        return told | {"verdict": "DIVERGED", "said": Kind.FLOAT64_MISSING()}
    if found.scores:
        key = f"scores/{found.choice}"
        numbers, why = _by_scores(found, {run: each[key][at] for run, each in runs.items()})
    else:
        outputs = {run: _outputs(each, slice(None)) for run, each in runs.items()}
        batch = {(side, "batch"): floats for side, floats in found.floats.items()}
        numbers, why = _by_outputs(outputs | batch)
    verdict = "DIVERGED" if why else "FLIP"
    said = why or (Kind.NEAR_TIE() if found.scores else Kind.OUTPUTS_ALIKE())
    return told | numbers | {"verdict": verdict, "said": said}


def _by_scores(
    found: Found, scores: Mapping[tuple[str, str], np.ndarray]
) -> tuple[dict[str, object], str]:
    """Return the numbers of a choice by scores (classes,), and why rounding does not decide it.

    Two runs of one function choose differently only where its scores of both choices, without
    rounding, are no further apart than the noise of each run moves both of them.
    """
    t64, p64 = (scores[side, "float64"] for side in SIDES)
    size = float(np.abs(_finite(t64)).max())
    noise = {}
    for side, own in zip(SIDES, (t64, p64), strict=True):
        moved = _distance(scores[side, "float32"], own).max()
        in_batch = _distance(np.array(found.scores[side]), own[found.ids[side]]).max()
        noise[side] = float(max(moved, in_batch))
    most = LESS_EXACT * max(noise["torch"], 2.0**-23 * size)
    margin = float(_distance(t64[found.ids["torch"]], t64[found.ids["paddle"]]).max())
    gap = float(_distance(t64, p64).max())
    allowed = 2.0 * (noise["torch"] + min(noise["paddle"], most))
    numbers: dict[str, object] = {"margin": margin, "gap": gap, "allowed": allowed}
    numbers = {name: _number(value) for name, value in numbers.items()}
    numbers["noise"] = {side: _number(value) for side, value in noise.items()}
    if not gap <= may_differ(size, noise["torch"]):
        return numbers, Kind.SCORES_OF_ANOTHER_FUNCTION()
    if margin <= allowed:
        return numbers, ""
    for side in SIDES:
        alone = np.argsort(-scores[side, "float32"], kind="stable")[: len(found.ids[side])]
        if alone.tolist() != found.ids[side]:
            return numbers, Kind.CHOSEN_OTHERWISE_ALONE(side=side, why=Kind.OF_THE_BATCH())
    if noise["paddle"] > most:
        return numbers, Kind.SCORES_LESS_EXACT(**noise, why=Kind.LESS_EXACT())
    return numbers, Kind.MARGIN_TOO_WIDE()


def _by_outputs(
    outputs: Mapping[tuple[str, str], Mapping[str, np.ndarray]],
) -> tuple[dict[str, object], str]:
    """Return the same of integers that a pair's hook chose, which have no scores.

    outputs  (side, run) -> name -> the floats that the hook chose from; the runs are float64 and
             float32, that example alone, and `batch`, float32 among the examples of its batch
    One hook chooses for both sides: where its floats are one function's and no run is off by more
    than the reference's rounding, rounding decides.
    """
    t64, p64 = (outputs[side, "float64"] for side in SIDES)
    gap, why = 0.0, "" if t64 else Kind.HOOK_WITHOUT_FLOATS()
    for name, values in t64.items():
        if name not in p64 or p64[name].shape != values.shape:
            return {"gap": gap}, Kind.OUTPUT_OF_ANOTHER_SHAPE(name=name)
        size = float(np.abs(_finite(values)).max(initial=0.0))
        apart = float(_distance(values, p64[name]).max(initial=0.0))
        gap = max(gap, apart)
        noise = float(_distance(outputs["torch", "float32"][name], values).max(initial=0.0))
        if not apart <= may_differ(size, noise):
            why = why or Kind.OUTPUT_OF_ANOTHER_FUNCTION(name=name)
        most = LESS_EXACT * max(noise, 2.0**-23 * size)
        for side in SIDES:
            for run, told in (("float32", Kind.LESS_EXACT), ("batch", Kind.OF_THE_BATCH)):
                off = _distance(outputs[side, run][name], outputs[side, "float64"][name])
                if not off.max(initial=0.0) <= most:
                    why = why or Kind.OUTPUT_OF_SIDE(side=side, name=name, why=told())
    return {"gap": gap}, why


def may_differ(size: float, noise: float) -> float:
    """Return how far apart one function's float64 values of both sides are at most.

    size    the largest of them
    noise   of the reference's float32
    """
    grown = PART_OF_NOISE * min(noise, tolerance("cap") * size)
    return max(tolerance("constant") * size, grown)


def another_function(torch: Mapping[str, np.ndarray], paddle: Mapping[str, np.ndarray]) -> str:
    """A sentence where both sides' float64 answers to one example are no one function's.

    Choices may agree all the same; empty where they are, and where nothing can be said.
    """
    for key in (key for key in torch if key.startswith("top_scores/")):
        if key not in paddle or torch[key].shape != paddle[key].shape:
            continue
        size = float(np.abs(_finite(torch[key])).max(initial=0.0))
        gap = float(_distance(torch[key], paddle[key]).max(initial=0.0))
        if not gap <= tolerance("constant") * size:
            return Kind.ANOTHER_FUNCTION(name=key.partition("/")[2], gap=gap, size=size)
    return ""


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, 0.0).astype(np.float64)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b| in float64; equal infinities are no distance, NaN is infinitely far."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    apart = np.abs(np.where(a == b, 0.0, a) - np.where(a == b, 0.0, b))
    return np.where(np.isnan(apart), math.inf, apart)


def summed(parts: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What all batches come to: agreement.json's choices, counts, disagreements and verdict.

    parts   of each batch `choices` (as `compare` counts them), `disagreements` (judged, with the
            example's number) and `unjudged`
    Raises ValueError where batches have other choices.
    """
    total: dict[str, dict] = {}
    for part in parts:
        for name, counts in part["choices"].items():
            sums = total.setdefault(name, counts)
            if any(sums[key] != counts[key] for key in ("by", "classes", "k")):
                raise ValueError(Kind.CLASSES_DIFFER(name=name))
            if sums is not counts:
                added = {key: sums[key] + counts[key] for key in _SUMMED}
                total[name] = sums | added | {k: max(sums[k], counts[k]) for k in _LARGEST}
    judged = [each for part in parts for each in part["disagreements"]]
    judged.sort(key=lambda each: (-SEVERITY.index(each["verdict"]), each["rank"], each["example"]))
    verdicts = [each["verdict"] for each in judged]
    counts = {name: verdicts.count(name) for name in ("FLIP", "DIVERGED", "INVALID")}
    unjudged = sum(part["unjudged"] for part in parts)
    choices = [_choice(name, sums) for name, sums in total.items()]
    verdict = max(verdicts, key=SEVERITY.index, default="IDENTICAL")
    return {
        "verdict": verdict,
        "exit_code": int(verdict in ("DIVERGED", "INVALID") or unjudged > 0),
        "thresholds": {"maintainers": MAINTAINERS, "ours": "no DIVERGED"},
        "reached": all(each["top1"]["share"] >= MAINTAINERS for each in choices),
        "choices": choices,
        "counts": {"disagreements": len(judged) + unjudged, **counts, "unjudged": unjudged},
        "disagreements": judged[:LISTED],
    }


_SUMMED = ("decisions", "equal", "same_set", "same_order")
_LARGEST = ("largest", "of")


def _choice(name: str, sums: Mapping[str, object]) -> dict[str, object]:
    count = sums["decisions"]
    shares = {key: sums[key] / count if count else 0.0 for key in _SUMMED}
    top = {
        "k": sums["k"],
        "same_set": sums["same_set"],
        "set_share": shares["same_set"],
        "same_order": sums["same_order"],
        "order_share": shares["same_order"],
    }
    return {
        "name": name,
        "by": sums["by"],
        "decisions": count,
        "classes": sums["classes"],
        "top1": {"equal": sums["equal"], "share": shares["equal"]},
        "top5": top if sums["by"] == "top" else None,
        "scores": {key: _number(sums[key]) for key in _LARGEST} if sums["by"] == "top" else None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
