"""The line that a difference is of: both sides run once more, with every operator's call kept."""

from collections.abc import Collection
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from twincheck.common.check.workers import Workers
from twincheck.common.line.find import Finder
from twincheck.common.line.gradients import GradientFinder
from twincheck.common.line.source import Line, line_of
from twincheck.common.logs.key import Key, in_any_layer, parent_of
from twincheck.common.logs.reader import Log, read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of, sidecar_path
from twincheck.common.logs.trace import Trace
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.checkout import short_place
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.judge import Judgement
from twincheck.common.verdict.row import Row, first_bad_row

_CLOSE = (1e-12, 1e-6)  # of the same number on both sides, at the least and the most
MOST = 8  # origins that are looked into


def find_lines(
    workers: Workers, pair: Pair, folder: Path, stem: str, judgement: Judgement
) -> dict[str, Line]:
    """Return the line of each origin where the code is wrong, as far as it is seen."""
    origins = [
        (row, Key.parse(row.key, judgement.cases))
        for row in judgement.rows
        if row.origin and row.verdict in ("DIVERGED", "INVALID") and row.measure != "claim"
    ]
    if not origins or "torch" not in workers.pythons:
        return {}
    first = first_bad_row(judgement.rows)
    origins.sort(key=lambda one: one[0] is not first)
    case = origins[0][1].case
    some = [(row, key) for row, key in origins if key.case == case and not key.run][:MOST]
    files = ResultFolder(folder)
    probed = {n[len(case) :] for n in sidecar_of(files.log(stem, "torch")).modules}
    sites = tuple(_site(key, probed) for _, key in some[:1])
    try:
        for looked_into in (("",), sites):
            if not some or workers.trace(pair, stem, case.rstrip("/"), looked_into):
                return {}
            traces = [Trace.read(folder / f"{stem}_{side}_trace") for side in SIDES]
            if all(trace.whole for trace in traces):
                break
        else:
            return {}
        finder_of = cache(partial(Finder, *traces))
        found, logs = {}, [files.log(stem, side, RunKind.TRACED) for side in SIDES]
        with read_log(logs[0]) as reference, read_log(logs[1]) as log:
            for row, key in some:
                if line := _line(finder_of(closeness(row)), key, log, reference):
                    row.add(*line.reasons)
                    places = {side: short_place(at) for side, at in line.places.items()}
                    found[row.key] = replace(line, places=places)
        alike = {_anywhere(key): found[row.key] for row, key in some if row.key in found}
        others = ((row, alike.get(_anywhere(key))) for row, key in origins)
        return found | {row.key: line for row, line in others if line and row.key not in found}
    finally:
        for side in SIDES:
            log = files.log(stem, side, RunKind.TRACED)
            for path in (log, sidecar_path(log), *folder.glob(f"{stem}_{side}_trace.*")):
                path.unlink(missing_ok=True)
            (folder / f"request_{side}_traced.json").unlink(missing_ok=True)


def _line(finder: Finder, key: Key, log: Log, reference: Log) -> Line | None:
    """Return the line of one origin; None where it is not seen."""
    wrong, right = (of[str(key)] if str(key) in of else None for of in (log, reference))
    if key.kind in ("grad", "grad_of"):
        value = str(replace(key, kind="")) if key.kind == "grad_of" else ""
        of = log[value] if value in log else None
        if key.kind == "grad_of" and of is None:
            return None
        suspect = GradientFinder(finder).suspect(of, wrong, right)
    elif wrong is None or right is None:
        return None
    else:
        suspect = finder.suspect(wrong, right)
    return line_of(finder, suspect, right) if suspect else None


def closeness(row: Row) -> float:
    """Return how far the same number of both sides may lie apart: far less than a row is off."""
    off = row.gap / row.scale if row.gap and row.scale and np.isfinite(row.gap) else 1.0
    return float(np.clip(off / 1e3, *_CLOSE))


def _anywhere(key: Key) -> str:
    return in_any_layer(str(replace(key, case="")))


def _site(key: Key, probed: Collection[str]) -> str:
    """Return the module whose code is looked at: of an input, what it is called by."""
    site = key.site.partition("/")[0]
    site = parent_of(site) if key.is_input else site
    while site and site not in probed:
        site = parent_of(site)
    return site
