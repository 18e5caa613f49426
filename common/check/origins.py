"""Which of several origins inside a model is the one: the Paddle side is run again for each.

Teacher forcing shows where a side computes something else.  In a pair that two people have
written, that may be meant so: one module adds the residual which its caller adds on the other side.
Fed with the reference's value there and nowhere else, a model comes nearer to the reference only
where that is what is wrong.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from twincheck.common.check.workers import Workers
from twincheck.common.logs.key import Key, in_any_layer
from twincheck.common.logs.of_a_run import Logs
from twincheck.common.logs.reference import teacher_values
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_path
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.comparisons import Comparisons
from twincheck.common.verdict.inside import VALUES, is_off, made_inside
from twincheck.common.verdict.judge import Judgement
from twincheck.common.verdict.row import AGREEING, FAILING, Row
from twincheck.common.verdict.tolerances import tolerance

MOST = 8  # origins that are tried
# What is left of the gaps that decide.
BETTER = 0.7  # where an origin is one
WORSE = 1.5  # where it is none: its values mean something else on the other side


@dataclass(frozen=True)
class Effect:
    """The effect of feeding a value on the rows that decide and were off."""

    before: int  # how many are off
    after: int  # and how many when it is fed
    left: float  # what part of their gaps is left, of values or of gradients: the better one's


def prove_origins(
    workers: Workers, pair: Pair, folder: Path, stem: str, judgement: Judgement
) -> None:
    """Make INSIDE the origins that show to be none, till the first that shows to be one.

    One that makes it neither better nor worse may be one of several.  What is wrong in every layer
    need not get better by one of them: those are fed together too.  Where feeding one makes all
    agree, those after it have no part in it.  Those that make it worse are fed once more together,
    beside the one that makes it better: faults that hide each other in part do so where one of them
    is mended.  One case is tried; in the others the same places are none.  The last origin of a
    case stays one, whatever it does.
    """
    origins: dict[str, list[tuple[Row, Key]]] = {}
    for row in judgement.rows:
        if row.origin and row.verdict in FAILING:
            key = Key.parse(row.key, judgement.cases)
            origins.setdefault(key.case, []).append((row, key))
    case = next((c for c, rows in origins.items() if len(rows) > 1 and rows[0][0].inside), None)
    if case is None:
        return
    effect_of = partial(_effect, workers, pair, folder, stem, case, judgement.rows)
    innocent: set[str] = set()  # places without their case
    best, found = Effect(1, 1, 1.0), []  # of what makes it better, and which places that is
    places: dict[str, list[Row]] = {}  # a module's calls belong together
    for row, key in origins[case]:
        places.setdefault(_place(key), []).append(row)
    former = False  # whether the place before has the same numbers in another order
    for number, (place, rows) in enumerate(list(places.items())[:MOST]):
        if not rows[0].inside:
            break  # it decides: nothing has to be shown
        turned, former = former and rows[0].is_turned, rows[0].is_turned
        if turned:
            continue  # the order is that of the place before
        effect, alike = effect_of([row.key for row in rows]), [place]
        layers = [other for other in places if in_any_layer(other) == in_any_layer(place)]
        if effect.left > BETTER and len(layers) > 1 and place == layers[0]:
            together = effect_of([row.key for other in layers for row in places[other]])
            if together.left <= BETTER:
                effect, alike = together, layers
        if effect.left > WORSE and effect.after >= effect.before:
            innocent.add(place)
        mends = effect.left <= BETTER
        if former:  # whose numbers are right: in another order they may be nearer by luck
            mends = effect.after < effect.before
        if not mends:
            continue
        for row in (row for other in alike for row in places[other]):
            row.excuses = ()  # whatever its order may mean: it is wrong here
        rows[0].add(_said(effect, len(alike)))
        if effect.after == 0:
            innocent |= set(list(places)[number + 1 :]) - set(alike)
        best, found = effect, alike
        break
    hidden = [place for place in places if place in innocent]
    if hidden and best.after:
        together = effect_of([row.key for place in found + hidden for row in places[place]])
        if together.left <= BETTER * best.left:
            innocent.clear()
            first = places[(found + hidden)[0]][0]
            first.add(_said(together, len(found + hidden)))
    for rows in origins.values():
        none = [row for row, key in rows if row.inside and _place(key) in innocent]
        if len(none) < len(rows):
            inside = {id(row): made_inside(row, VALUES) for row in none}
            judgement.rows[:] = [inside.get(id(row), row) for row in judgement.rows]


def _said(effect: Effect, places: int) -> str:
    """Describe the effect of feeding a place, and others with it, in a sentence."""
    rows = {"agree": effect.before - effect.after, "before": effect.before}
    if places == 1:
        return Kind.FED_HERE(**rows)
    return Kind.FED_HERE_AND_ELSEWHERE(more=places - 1, **rows)


def _place(key: Key) -> str:
    """Return a key without case and call, as all calls of a module in all cases have it."""
    return str(replace(key, case="", call=""))


def _effect(
    workers: Workers,
    pair: Pair,
    folder: Path,
    stem: str,
    case: str,
    rows: Sequence[Row],
    keys: Sequence[str],
) -> Effect:
    """Measure the effect in a case of feeding the Paddle side the reference's values of `keys`.

    Nothing where they cannot be fed.
    """
    files = ResultFolder(folder)
    with teacher_values(files, stem) as values:
        tried = {key: values.tried(key) for key in keys}
    fed = {key: value for key, value in tried.items() if value is not None}
    with ExitStack() as stack:
        proof = stack.enter_context(_folder_for_a_run(folder))
        cases = [case.rstrip("/")] if case else []
        if not fed or workers.feed(pair, proof, fed, cases):
            return Effect(0, 0, 1.0)
        logs = {name: files.judged_logs(stem)[name] for name in ("ref32", "ref64")}
        logs["free"] = ResultFolder(proof).log(stem, "paddle", RunKind.TEACHER_FORCED)
        opened = Logs(stack, logs)
        keys = [Key.parse(row.key, opened.cases) for row in rows]
        again = Comparisons(opened, keys)
        gaps: dict[bool, list[tuple[float, bool, float]]] = {False: [], True: []}
        for row, key in zip(rows, keys, strict=True):
            if row.inside or not is_off(row) or key.case != case:
                continue
            gap = _relative(row)
            by_constant = gap <= tolerance("constant")  # that is not what is looked for
            forced_row = None if by_constant else again.row("free", key)
            if forced_row is not None:
                off = forced_row.verdict not in (*AGREEING, "CONSTANT")
                gaps[bool(key.kind)].append((gap, off, _relative(forced_row)))
        # A wrong gradient stays where a wrong output is put right: what gets better counts.
        left = [
            sum(g for _, _, g in some) / sum(g for g, _, _ in some)
            for some in gaps.values()
            if some
        ]
        found = [off for some in gaps.values() for _, off, _ in some]
        return Effect(len(found), sum(found), min(left, default=1.0))


def _relative(row: Row) -> float:
    """A row's gap as a part of its size; what cannot be compared is all off."""
    if row.gap is None or not row.scale or not np.isfinite(row.gap):
        return 1.0
    return row.gap / row.scale


def run_with_exact_operators(workers: Workers, pair: Pair, folder: Path) -> None:
    """Leave the logs of a run that is fed nothing, with Paddle's inexact operators made exact.

    Where that cannot be run there is no such log, and what is off stays what it is.
    """
    with _folder_for_a_run(folder) as proof:
        if workers.feed(pair, proof):
            return
        for stem in workers.step.judged:
            log = ResultFolder(proof).log(stem, "paddle", RunKind.FREE)
            for path in (log, sidecar_path(log)):
                os.replace(path, folder / path.name)


@contextmanager
def _folder_for_a_run(folder: Path) -> Iterator[Path]:
    """A folder in a result's that goes afterwards."""
    proof = folder / "proof"
    proof.mkdir()
    try:
        yield proof
    finally:
        shutil.rmtree(proof)
