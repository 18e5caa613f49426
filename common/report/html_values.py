"""The values of some rows, for the page: the worst elements, and how large the differences are.

They are read from the logs, in float64 where these are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

import numpy as np

from twincheck.common.logs.reader import Log, read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.report.html_facts import UNREADABLE
from twincheck.common.report.terminal import origins_first
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.row import AGREEING

MOST_VALUES = 240  # rows of a page
MOST_ELEMENTS = 2_000_000  # of a row, and ten times as many of a result
WORST = 5  # elements
DECADES = range(-20, 5)  # a bar each, of the differences between 1e-20 and 1e4


def values_of(result, indices: Sequence[int], of: Sequence[int], most: int) -> dict[int, object]:
    """Position among the rows -> values: of what does not agree, and of each module's worst."""
    rows = [result.rows[i] for i in indices]
    wanted: dict[int, str] = {}
    seen: set[int] = set()
    for n in sorted(range(len(rows)), key=lambda n: origins_first(rows[n]), reverse=True):
        row = rows[n]
        if row.size > MOST_ELEMENTS or row.measure in ("claim", "count") or len(wanted) == most:
            continue
        if row.verdict not in AGREEING or of[n] not in seen:
            wanted[n] = row.key
            seen.add(of[n])
    return dict(_read(result, wanted))


def _read(result, wanted: Mapping[int, str]) -> Iterator[tuple[int, object]]:
    files, left = ResultFolder(result.folder), 10 * MOST_ELEMENTS
    for stem in result.step.judged:
        kept = all(files.log(stem, side, RunKind.FLOAT64).is_file() for side in SIDES)
        run, word = (RunKind.FLOAT64, "float64") if kept else (RunKind.PLAIN, "float32")
        with ExitStack() as stack, suppress(*UNREADABLE):
            logs = [stack.enter_context(read_log(files.log(stem, side, run))) for side in SIDES]
            for n, key in wanted.items():
                found = _compared(logs, key) if left > 0 else None
                if found is not None:
                    left -= found.pop("size")
                    yield n, found | {"run": word}


def _compared(logs: Sequence[Log], key: str) -> dict[str, object] | None:
    """The worst elements of a key and the sizes of its differences; None where it has none."""
    if not all(key in log for log in logs):
        return None
    sides = [log[key] for log in logs]
    if sides[0].shape != sides[1].shape or not all(
        of.size and of.dtype.kind in "fiu" for of in sides
    ):
        return None
    torch, paddle = (of.astype(np.float64).ravel() for of in sides)
    with np.errstate(all="ignore"):
        alike = (torch == paddle) | (np.isnan(torch) & np.isnan(paddle))
        off = np.where(alike, 0.0, np.abs(torch - paddle))
        off[np.isnan(off)] = np.inf
        decades = np.floor(np.log10(off[np.isfinite(off) & ~alike])).astype(int) - DECADES[0]
    count = min(WORST, off.size)
    most = np.flatnonzero(off >= np.partition(off, -count)[-count])  # to sort all takes far longer
    worst = [
        (
            [int(i) for i in np.unravel_index(at, sides[0].shape)],
            *(f"{values[at]:.9g}" for values in (torch, paddle)),
            f"{off[at]:.2e}",
        )
        for at in most[np.argsort(-off[most], kind="stable")][:WORST]
        if not alike[at]
    ]
    counts = np.bincount(np.clip(decades, 0, len(DECADES) - 1), minlength=len(DECADES))
    return {"worst": worst, "alike": int(alike.sum()), "sizes": counts.tolist(), "size": off.size}
