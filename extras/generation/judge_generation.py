"""What a generation of a pair came to: does each side agree with itself, do both write the same?

NumPy only, from the logs of the check.  It leaves generation.json in step 5's folder of the
model's results, step5_train/log/MODEL/generation.json (with --out DIR, DIR/step5_train/MODEL/…):

schema     1
model      the pair's name; `pair`: its folder; `preset`, `weights` (of --weights, or those that
           were taken without it), `seed`, `device`, `dtype` (of the runs beside float64)
versions   {torch, paddle}: of the frameworks; `sources`: side -> the pair's files and their hashes
weights_sha256  of the weights that both sides computed with; `time`: when the port had run
verdict    of the whole check, as its table has it; `exit_code` 0 or 1 (with 2 no file is written)
command    as it was typed; null as for `how`
how        tokens (number), sample (bool), temperature, top_k (0: all), by (of "loop", "cache",
           "library": how tokens were generated), padded (bool: also as one left-padded batch),
           cache (side -> bool: whether that side was run with its key-value cache); null where
           nobody knows any more
prompts    a list, of each prompt:
    prompt            its ids
    text              its text, null where ids were given
    reference         the ids of torch's float64 run, which all runs went on with
    torch, paddle     the ids that each side's float32 run would have chosen there
    free              {torch, paddle}: the ids where each side goes on with its own choices
    texts             {torch, paddle}: their text; null without a tokenizer
    equal             how many of `torch` and `paddle` are the same; `tokens`: of how many
    differences       where a run would have chosen otherwise than the reference, in order, each:
        token             its number, from 0; `position`: the same with the prompt counted
        reference, torch, paddle, paddle_float64    ids
        margin            by how much the reference's choice won: of logits, or of probability
        noise             {torch, paddle}: float32 against float64, the largest at that token
        verdict           FLIP (rounding decides there) or DIVERGED
    first_difference  the first of them, or null
    first_step        of the first token: top10 {torch, paddle}: ids, largest logit first;
                      equal_top10 (bool, as lists); cosine of both sides' float32 logits
equal      how many tokens of all prompts are the same; `tokens`: of how many; `share` 0 to 1
itself     what each side came to against its own plain loop without a cache, a list of:
    side              torch or paddle
    way               cache, padded, padded with cache, or library
    verdict           ROUNDING or IDENTICAL, FLIP (library alone), PRECISION, DIVERGED
    prompt            the number of the prompt that is worst, from 0
    token, position   of the first that is off, null where none is
    gap, allowed      of the float64 logits there, or the largest anywhere
    said              a sentence on what is off; empty where nothing is
notes      sentences: what was not run, and why

Gaps are the largest absolute differences of logits; numbers that are undefined are null.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.pair.pairs import PERTURBED
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import reasons_json
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.choices import Choice, judge_choice
from twincheck.common.verdict.row import Row
from twincheck.common.verdict.rule import rounding_bound
from twincheck.common.verdict.tolerances import tolerance
from twincheck.extras.generation import Kind
from twincheck.extras.generation.generation import (
    CACHE,
    LIBRARY,
    PADDED,
    PADDED_CACHE,
    PADDED_LIBRARY,
    order_of,
)
from twincheck.extras.shared.made_by import made_by

STEM = "generate"
CASE = "main"  # the only one that is run
TOP = 10
# What each way is called in a sentence that says that it is off.
_CALLED = {
    CACHE: Kind.CACHE_OF_SIDE,
    PADDED: Kind.PADDED_OF_SIDE,
    PADDED_CACHE: Kind.PADDED_CACHE_OF_SIDE,
    LIBRARY: Kind.LIBRARY_OF_SIDE,
    PADDED_LIBRARY: Kind.PADDED_LIBRARY_OF_SIDE,
}


@dataclass
class Generated:
    """The logs of one model's runs: of four runs, or of the float32 runs alone.

    logits   (side, run) -> of each prompt (N, V), as chosen from without sampling
    choices  (side, run) -> of each prompt what it would have chosen and from which scores
    """

    folder: Path
    prompts: list[np.ndarray] = field(default_factory=list)
    reference: list[np.ndarray] = field(default_factory=list)
    logits: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)
    choices: dict[tuple[str, str], list[Choice]] = field(default_factory=dict)
    margins: list[np.ndarray] = field(default_factory=list)
    free: dict[str, list[np.ndarray]] = field(default_factory=dict)
    sidecars: dict[tuple[str, str], Sidecar] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Generated":
        """Read the logs of a folder; raises LogError for a file that is none."""
        found, files = cls(folder), ResultFolder(folder)
        paths = {(side, run): files.log(STEM, side, run) for side in SIDES for run in _RUNS}
        with ExitStack() as stack:
            logs = {
                key: stack.enter_context(read_log(path))
                for key, path in paths.items()
                if path.is_file()
            }
            for key, log in logs.items():
                found.sidecars[key] = sidecar_of(paths[key])
                found._take(key, log)
            best = logs[found.best("torch")]
            for number in range(len(found.choices[found.best("torch")])):
                ids, margin = best[f"prompt_{number}/ids"], best[f"prompt_{number}/choice:margin"]
                found.margins.append(margin)
                found.prompts.append(ids[: -margin.size])
                found.reference.append(ids[-margin.size :])
            for side in SIDES:
                own = logs.get((side, RunKind.UNFORCED), logs[side, RunKind.PLAIN])
                found.free[side] = [
                    own[f"prompt_{number}/ids"][prompt.size :]
                    for number, prompt in enumerate(found.prompts)
                ]
        return found

    def _take(self, key: tuple[str, str], log: Mapping[str, np.ndarray]) -> None:
        number = 0
        self.logits[key], self.choices[key] = [], []
        while f"prompt_{number}/choice" in log:
            at = f"prompt_{number}"
            scores = log[f"{at}/choice:scores"]
            sampled = f"{at}/logits" in log
            self.logits[key].append(log[f"{at}/logits"] if sampled else scores)
            self.choices[key].append(Choice(log[f"{at}/choice"], scores))
            number += 1

    def best(self, side: str) -> tuple[str, str]:
        """The most exact run of a side."""
        in_float64 = (side, RunKind.FLOAT64)
        return in_float64 if in_float64 in self.sidecars else (side, RunKind.PLAIN)

    @property
    def in_float64(self) -> bool:
        """Return whether both sides have a float64 run."""
        return all((side, RunKind.FLOAT64) in self.sidecars for side in SIDES)

    def noise(self, side: str, number: int) -> np.ndarray:
        """Return how far a side's float32 logits are from its float64 ones, token by token."""
        runs = (RunKind.PLAIN, RunKind.FLOAT64)
        return _largest_gap(*(self.logits[side, run][number] for run in runs))

    def notes(self, entry: str, side: str, run: str):
        """An entry of a run's sidecar."""
        sidecar = self.sidecars.get((side, run), Sidecar())
        return getattr(sidecar, entry).get(CASE, {})


_RUNS = (RunKind.FLOAT64, RunKind.PLAIN, RunKind.UNFORCED)


def _largest_gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a.astype(np.float64) - b).max(axis=-1)


# ---- does a side agree with itself? -------------------------------------------------------------


def itself_rows(found: Generated) -> list[Row]:
    """A row for each way of generating that a side was run in beside its plain loop."""
    rows = []
    for side in SIDES:
        ways = dict.fromkeys(
            key.partition("/")[0]
            for run in (RunKind.FLOAT64, RunKind.PLAIN)
            for entry in ("generated", "failed")
            for key in found.notes(entry, side, run)
        )
        of_side: dict[str, Row] = {}
        for way in _CALLED:
            if way in ways:
                of_side[way] = _itself(found, side, way)
        mixed = of_side.get(PADDED_CACHE)
        if mixed is not None and mixed.verdict == "DIVERGED":
            off = [of_side[way].origin for way in (CACHE, PADDED) if way in of_side]
            mixed.add(Kind.OFF_BY_ITSELF() if any(off) else Kind.OFF_TOGETHER())
        rows += of_side.values()
    return rows


def _itself(found: Generated, side: str, way: str) -> Row:
    row = Row(f"itself/{side}/{way.replace(' ', '_')}", "IDENTICAL", gap=0.0, allowed=0.0, size=1)
    row.measure = "claim"
    errors = [found.notes("failed", side, run).get(way) for run in (RunKind.FLOAT64, RunKind.PLAIN)]
    error = next(filter(None, errors), None)
    if error:
        failed = Kind.WAY_FAILED(way=_CALLED[way](side=side), error=error)
        return row.decided("INVALID", failed, origin=True, gap=None)
    judge = _by_ids if way in (LIBRARY, PADDED_LIBRARY) else _by_logits
    row = judge(found, side, way, row)
    row.origin = row.verdict in ("PRECISION", "DIVERGED", "INVALID")
    return row


def _by_logits(found: Generated, side: str, way: str, row: Row) -> Row:
    """Logits against those of the plain loop, in float64 and in float32."""
    largest, first = (0.0, 0.0), None
    for number, ids in enumerate(found.prompts):
        gaps = [_series(found, side, run, f"{way}/prompt_{number}:gap") for run in _JUDGED]
        scale = np.abs(found.logits[found.best(side)][number]).max(axis=-1)
        if gaps[0] is None:  # no float64 run
            of_type, verdict, gap = "float32", "DIVERGED", gaps[1]
            allowed = tolerance("close") * scale
        else:
            noise = found.noise(side, number)
            of_type, verdict, gap = "float64", "DIVERGED", gaps[0]
            allowed = rounding_bound(noise, scale, scale)
            inexact = tolerance("precision") * max(noise.max(), 2.0**-23 * scale.max())
            if (gap <= allowed).all() and not (gaps[1] <= inexact).all():
                of_type, verdict, gap = "float32", "PRECISION", gaps[1]
                allowed = np.full_like(gap, inexact)
        off = ~(gap <= allowed)
        n = int(np.argmax(off if off.any() else gap))
        if off.any() and (first is None or n < first[1]):
            first = number, n, of_type
            decided = verdict
            row.gap, row.allowed = float(gap[n]), float(allowed[n])
        if first is None and gap[n] >= largest[0]:
            row.gap, row.allowed = largest = float(gap[n]), float(allowed[n])
            row.worst_index = (number, ids.size + n)
    if first is None:
        return row.decided("ROUNDING" if row.gap else "IDENTICAL")
    number, n, of_type = first
    position = found.prompts[number].size + n
    row.worst_index = (number, position)
    at = {"way": _CALLED[way](side=side), "position": position, "prompt": number, "token": n}
    if not np.isfinite(row.gap):
        said = Kind.WAY_GIVES_NO_NUMBERS(**at)
        if way in (PADDED, PADDED_CACHE):
            said = Kind.PADDING_ALONE(fact=said)
        return row.decided("INVALID", said, gap=None)
    said = Kind.WAY_IS_OFF(**at, dtype=of_type, gap=row.gap, allowed=row.allowed)
    return row.decided(decided, said, _why(found, side, way, number, n))


_JUDGED = (RunKind.FLOAT64, RunKind.PLAIN)
_ALIKE = 1e-6  # of how far the first wrong token is off: float64 leaves 1e-15


def _series(found: Generated, side: str, run: str, key: str) -> np.ndarray | None:
    """Return how far each token is off; infinitely far where it is no number."""
    values = found.notes("generated", side, run).get(key)
    return None if values is None else np.array([np.inf if v is None else v for v in values])


def _why(found: Generated, side: str, way: str, number: int, n: int) -> str:
    """Say where to look, as far as what else was tried tells."""
    _, run = found.best(side)
    name = f"{way}/prompt_{number}"
    gap = _series(found, side, run, f"{name}:gap")
    other = _series(found, side, run, f"{name}:other_padding")
    if other is not None:
        if abs(other[0] - gap[0]) > 1e-3 * gap[0]:
            return Kind.PADDING_SEEN()
        return Kind.PADDING_COUNTED()
    if way == PADDED_CACHE:
        return ""
    given = _series(found, side, run, f"{name}:with_positions")
    if given is not None:
        # Do positions that begin anew give, at every token, what the model gives without any?
        anew = _series(found, side, run, f"{name}:restart").max() < _ALIKE * gap[n]
        off = np.flatnonzero(~(given < _ALIKE * gap[n]))
        if not off.size:
            which = Kind.POSITIONS_ANEW() if anew else Kind.POSITIONS_WRONG()
            return Kind.POSITIONS_NEEDED(which=which)
        if anew:
            position = found.prompts[number].size + int(off[0])
            return Kind.POSITIONS_AND_MORE(which=Kind.POSITIONS_ANEW(), position=position)
    if n == 0:
        return Kind.NO_CACHE_YET()
    if n == 1:
        return Kind.CACHE_BEGINS() if given is None else Kind.CACHE_BEGINS_POSITIONS_RIGHT()
    return Kind.CACHE_FORGETS(held=found.prompts[number].size + n - 2)


def _by_ids(found: Generated, side: str, way: str, row: Row) -> Row:
    """Ids of the library's own generation against the plain loop's."""
    flips = []
    for number in range(len(found.prompts)):
        for run in _JUDGED:
            ids = found.notes("generated", side, run).get(f"{way}/prompt_{number}:choice")
            if ids is None:
                continue
            ids, scores = np.array(ids).astype(np.int64), found.logits[side, run][number]
            own = found.choices[side, run][number].choice
            for n in np.flatnonzero((ids != own) & (ids >= 0)).tolist():
                lost = float(scores[n, own[n]] - scores[n, min(ids[n], scores.shape[1] - 1)])
                noise = float(found.noise(side, number)[n]) if found.in_float64 else 0.0
                if run == RunKind.FLOAT64:
                    scale = np.abs(scores[n]).max()
                    noise = min(noise, float(rounding_bound(noise, scale, scale)))
                at = {"position": found.prompts[number].size + n, "prompt": number, "token": n}
                ways = {"way": _CALLED[way](side=side), "choice": ids[n], "own": own[n]}
                said = Kind.LIBRARY_CHOOSES(**ways, **at, lost=lost, noise=noise)
                row.gap, row.allowed = lost, 2.0 * noise
                row.worst_index = (number, found.prompts[number].size + n)
                if not lost <= 2.0 * noise:
                    return row.decided("DIVERGED", Kind.LIBRARY_BY_SETTINGS(fact=said))
                flips.append(n)
    return row.decided("FLIP", Kind.LIBRARY_BY_NEAR_TIE(fact=said)) if flips else row


# ---- the plain loops beside each other ----------------------------------------------------------


def differences(found: Generated, number: int) -> list[dict[str, object]]:
    """List where a run would have gone on with another token than the reference, in order."""
    best = found.best("torch")
    runs = {"torch": ("torch", RunKind.PLAIN), "paddle": ("paddle", RunKind.PLAIN)}
    if found.in_float64:
        runs["paddle_float64"] = ("paddle", RunKind.FLOAT64)
    chosen = {name: found.choices[run][number] for name, run in runs.items()}
    reference = found.choices[best][number]
    told = []
    for n, token in enumerate(reference.choice.tolist()):
        own = {name: int(choice.choice[n]) for name, choice in chosen.items()}
        if set(own.values()) == {token}:
            continue
        each = (reference, *chosen.values())
        one = [Choice(c.choice[n : n + 1], c.scores[n : n + 1]) for c in each]
        one += [None] * (4 - len(one))
        margin = found.margins[number][n : n + 1]
        own_run = None if best[1] == RunKind.PLAIN else one[1]
        row = judge_choice("", one[0], margin, own_run, one[2], one[3])
        told.append(
            {
                "token": n,
                "position": found.prompts[number].size + n,
                "reference": token,
                **own,
                "margin": float(margin[0]),
                "noise": {s: _score_noise(found, s, number, n) for s in SIDES},
                "verdict": row.verdict,
            }
        )
    return told


def _score_noise(found: Generated, side: str, number: int, n: int) -> float | None:
    if not found.in_float64:
        return None
    scores = (found.choices[side, run][number].scores[n] for run in _JUDGED)
    gap = float(_largest_gap(*scores))
    return gap if np.isfinite(gap) else None


def document(found: Generated, verdict: str, exit_code: int, rows: Sequence[Row], **more) -> dict:
    """generation.json, as the module's docstring has it; `more` is what the logs do not say."""
    first = found.sidecars["torch", RunKind.PLAIN]
    prompts = [_of_prompt(found, number) for number in range(len(found.prompts))]
    equal, tokens = (sum(prompt[name] for prompt in prompts) for name in ("equal", "tokens"))
    ran = {side: found.sidecars[side, RunKind.PLAIN] for side in SIDES}
    return {
        "schema": 1,
        "model": first.model,
        "preset": first.preset,
        "weights": PERTURBED if first.weights == "initial" else first.weights,
        "seed": first.seed,
        "device": first.device,
        "dtype": first.dtype,
        **made_by(ran),
        "time": ran["paddle"].time,
        "verdict": verdict,
        "exit_code": exit_code,
        "equal": equal,
        "tokens": tokens,
        "share": equal / tokens,
        **more,
        "prompts": prompts,
        "itself": [_of_row(found, row) for row in rows if row.key.startswith("itself/")],
        "notes": left_out(found),
        "reasons": reasons_json(left_out(found)),
    }


def _of_prompt(found: Generated, number: int) -> dict[str, object]:
    own = {side: found.choices[side, RunKind.PLAIN][number].choice for side in SIDES}
    told = differences(found, number)
    logits = [found.logits[side, RunKind.PLAIN][number][0].astype(np.float64) for side in SIDES]
    top = {side: order_of(v, TOP).tolist() for side, v in zip(SIDES, logits, strict=True)}
    norms = np.prod([np.linalg.norm(values) for values in logits])
    cosine = float(logits[0] @ logits[1] / norms) if norms > 0 else None
    return {
        "prompt": found.prompts[number].tolist(),
        "text": None,
        "reference": found.reference[number].tolist(),
        **{side: ids.tolist() for side, ids in own.items()},
        "free": {side: found.free[side][number].tolist() for side in SIDES},
        "texts": None,
        "equal": int(np.count_nonzero(own["torch"] == own["paddle"])),
        "tokens": found.reference[number].size,
        "differences": told,
        "first_difference": told[0] if told else None,
        "first_step": {
            "top10": top,
            "equal_top10": top["torch"] == top["paddle"],
            "cosine": cosine if cosine is not None and np.isfinite(cosine) else None,
        },
    }


def _of_row(found: Generated, row: Row) -> dict[str, object]:
    _, side, way = row.key.split("/")
    number, position = row.worst_index or (None, None)
    off = row.verdict not in ("IDENTICAL", "ROUNDING")
    return {
        "side": side,
        "way": way.replace("_", " "),
        "verdict": row.verdict,
        "prompt": number,
        "token": position - found.prompts[number].size if off and position else None,
        "position": position if off else None,
        "gap": row.gap,
        "allowed": row.allowed,
        "said": row.note,
    }


def left_out(found: Generated) -> list[str]:
    """Sentences on ways of generating that a side's model does not have."""
    told = []
    for side in SIDES:
        told += found.sidecars[side, RunKind.PLAIN].left_out.get(CASE, [])
    return told


def varied(found: Generated) -> str:
    """A sentence where the tokens are so few that they say little; else empty."""
    ids = np.concatenate(found.reference)
    count = np.unique(ids).size
    if ids.size < 8 or count > 2:
        return ""
    return Kind.TOKENS_OF_FEW(count=ids.size, different=count)
