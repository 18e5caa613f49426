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
from dataclasses import dataclass

import numpy as np

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
    torch: list[int]  # the ordered top k
    paddle: list[int]
    torch_scores: list[float]  # theirs, in the run that found it
    paddle_scores: list[float]


def compare(
    torch: Mapping[str, np.ndarray], paddle: Mapping[str, np.ndarray], mask: np.ndarray | None
) -> tuple[dict[str, dict], list[Found]]:
    """Choice -> its counts, and every decision that differs, of both sides' answers to a batch.

    mask    (B, T), True: a token that counts
    Raises ValueError where the sides' answers cannot be compared.
    """
    if not np.array_equal(torch["fed"], paddle["fed"]):
        raise ValueError(Kind.FED_OTHERWISE())
    kinds = [{k for k in each if k.startswith(("top/", "hook/"))} for each in (torch, paddle)]
    if kinds[0] != kinds[1]:
        raise ValueError(Kind.CHOSEN_FROM_OTHERS(outputs=(*sorted(kinds[0] ^ kinds[1]),)))
    counts, found = {}, []
    for key in (key for key in torch if key in kinds[0]):
        by, _, name = key.partition("/")
        a, b = torch[key], paddle[key]
        if a.shape != b.shape:
            shapes = {"torch": str(list(a.shape)), "paddle": str(list(b.shape))}
            raise ValueError(Kind.SHAPES_DIFFER(name=name, **shapes))
        a, b = (ids[..., None] if by == "hook" else ids for ids in (a, b))
        kept = np.ones(a.shape[:-1], bool)
        if mask is not None and mask.shape == kept.shape:
            kept = mask
        valid = (a >= 0).all(axis=-1) & (b >= 0).all(axis=-1) if by == "top" else True
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
        if by == "top":
            scores = [each[f"top_scores/{name}"] for each in (torch, paddle)]
            alike = (a == b) & kept[..., None] & (a >= 0)
            counts[name]["largest"] = float(_distance(*scores)[alike].max(initial=0.0))
            counts[name]["of"] = float(np.abs(_finite(scores[0]))[alike].max(initial=0.0))
        for index in map(tuple, np.argwhere(kept & ~(valid & same["same_order"]))):
            differing = np.flatnonzero(a[index] != b[index])
            scores = [
                each[f"top_scores/{name}"][index].tolist() if by == "top" else []
                for each in (torch, paddle)
            ]
            rank = int(differing[0]) + 1 if differing.size else 1
            where = tuple(int(i) for i in index)
            ids = a[index].tolist(), b[index].tolist()
            found.append(Found(where[0], name, where[1:], rank, *ids, *scores))
    return counts, found


def judge(found: Found, scores: Mapping[tuple[str, str], np.ndarray]) -> dict[str, object]:
    """The verdict of a decision, and its numbers, as agreement.json has them.

    scores  (side, dtype) -> (classes,) scores of that example alone, run again
    Two runs of one function choose differently only where its scores of both choices, without
    rounding, are no further apart than the noise of each run moves both of them.
    """
    told = _told(found)
    if -1 in (found.torch[0], found.paddle[0]):
        return told | {"verdict": "INVALID", "said": Kind.LOGITS_NAN()}
    exact = [scores.get((side, "float64")) for side in ("torch", "paddle")]
    if any(each is None for each in exact):
        return told | {"verdict": "DIVERGED", "said": Kind.FLOAT64_MISSING()}
    t64, p64 = exact
    size = float(np.abs(_finite(t64)).max())
    noise = {}
    for side, own in (("torch", t64), ("paddle", p64)):
        ids, values = getattr(found, side), getattr(found, f"{side}_scores")
        moved = _distance(scores[side, "float32"], own).max()
        noise[side] = float(max(moved, _distance(np.array(values), own[ids]).max()))
    most = LESS_EXACT * max(noise["torch"], 2.0**-23 * size)
    counted = min(noise["paddle"], most)
    apart = _distance(t64[found.torch], t64[found.paddle])
    margin, gap = float(apart.max()), float(_distance(t64, p64).max())
    allowed = 2.0 * (noise["torch"] + counted)
    one_function = may_differ(size, noise["torch"])
    numbers = {"margin": margin, "gap": gap, "allowed": allowed}
    told |= {name: _number(value) for name, value in numbers.items()}
    told["noise"] = {side: _number(value) for side, value in noise.items()}
    if not gap <= one_function:
        told |= {"verdict": "DIVERGED", "said": Kind.SCORES_OF_ANOTHER_FUNCTION()}
    elif margin <= allowed:
        told |= {"verdict": "FLIP", "said": Kind.NEAR_TIE()}
    else:
        told |= {"verdict": "DIVERGED", "said": _why(found, scores, noise, most)}
    return told


def _why(found: Found, scores, noise: Mapping[str, float], most: float) -> str:
    """Why both sides' float64 scores agree and a choice differs by more than noise."""
    for side in ("torch", "paddle"):
        alone = np.argsort(-scores[side, "float32"], kind="stable")[: len(found.torch)]
        if alone.tolist() != getattr(found, side):
            return Kind.CHOSEN_OTHERWISE_ALONE(side=side, why=Kind.OF_THE_BATCH())
    if noise["paddle"] > most:
        return Kind.SCORES_LESS_EXACT(**noise, why=Kind.LESS_EXACT())
    return Kind.MARGIN_TOO_WIDE()


def judge_integers(
    found: Found, outputs: Mapping[tuple[str, str], Mapping[str, np.ndarray]]
) -> dict[str, object]:
    """The same of what a pair's hook chose, which has no scores.

    outputs  (side, run) -> name -> the floats that the hook chose from; the runs are float64 and
             float32, that example alone, and `batch`, float32 among the examples of its batch
    One hook chooses for both sides: where its floats are one function's and no run is off by more
    than the reference's rounding, rounding decides.
    """
    told = _told(found)
    if any((side, "float64") not in outputs for side in ("torch", "paddle")):
        return told | {"verdict": "DIVERGED", "said": Kind.FLOAT64_MISSING()}
    t64, p64 = (outputs[side, "float64"] for side in ("torch", "paddle"))
    told["gap"], beyond = 0.0, "" if t64 else Kind.HOOK_WITHOUT_FLOATS()
    for name, values in t64.items():
        if name not in p64 or p64[name].shape != values.shape:
            beyond = Kind.OUTPUT_OF_ANOTHER_SHAPE(name=name)
            break
        size = float(np.abs(_finite(values)).max(initial=0.0))
        gap = float(_distance(values, p64[name]).max(initial=0.0))
        told["gap"] = max(told["gap"], gap)
        noise = float(_distance(outputs["torch", "float32"][name], values).max(initial=0.0))
        if not gap <= may_differ(size, noise):
            beyond = Kind.OUTPUT_OF_ANOTHER_FUNCTION(name=name)
        for side in ("torch", "paddle"):
            for run, why in (("float32", Kind.LESS_EXACT), ("batch", Kind.OF_THE_BATCH)):
                off = _distance(outputs[side, run][name], outputs[side, "float64"][name])
                most = LESS_EXACT * max(noise, 2.0**-23 * size)
                if not beyond and not off.max(initial=0.0) <= most:
                    beyond = Kind.OUTPUT_OF_SIDE(side=side, name=name, why=why())
    if beyond:
        return told | {"verdict": "DIVERGED", "said": beyond}
    return told | {"verdict": "FLIP", "said": Kind.OUTPUTS_ALIKE()}


def may_differ(size: float, noise: float) -> float:
    """How far apart one function's float64 values of both sides are at most.

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


def _told(found: Found) -> dict[str, object]:
    """What agreement.json has of a decision beside the example and the verdict."""
    return {
        "choice": found.choice,
        "position": list(found.position),
        "rank": found.rank,
        "torch": found.torch[found.rank - 1],
        "paddle": found.paddle[found.rank - 1],
        "top_torch": found.torch,
        "top_paddle": found.paddle,
        "margin": None,
        "noise": None,
        "gap": None,
        "allowed": None,
    }


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
            sums = total.setdefault(name, dict.fromkeys((*_SUMMED, *_LARGEST), 0) | _fixed(counts))
            if _fixed(sums) != _fixed(counts):
                raise ValueError(Kind.CLASSES_DIFFER(name=name))
            for key in _SUMMED:
                sums[key] += counts[key]
            for key in _LARGEST:
                sums[key] = max(sums[key], counts[key])
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


def _fixed(counts: Mapping[str, object]) -> dict[str, object]:
    return {k: value for k, value in counts.items() if k not in (*_SUMMED, *_LARGEST)}


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
