"""What a report says beside its rows: environments, commands, discrete choices, reprod_log's words.

All of it is read from what lies in the result folders; what cannot be read is said, and no error.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, read_sidecar, sidecar_of
from twincheck.common.report.html_rows import reasons_of
from twincheck.common.report.html_words import visible
from twincheck.common.system.errors import LogError, UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.row import Row

# What reading a log or a sidecar of anybody's may raise.
UNREADABLE = (LogError, UserError, OSError, ValueError, KeyError, MemoryError)

MOST_LINES = 60  # of reprod_log's report
MOST_CHOICES = 400  # whose margins are read, of one result
SHOWN_CHOICES = 25

# Sidecar field, and what the page calls it: of an environment, and of a result alone.
_ENVIRONMENT = (
    ("framework", Kind.PAGE_FRAMEWORK()),
    ("framework_version", Kind.PAGE_VERSION()),
    ("framework_file", Kind.PAGE_IMPORTED_FROM()),
    ("device", Kind.PAGE_DEVICE()),
)
_OF_A_RESULT = (
    ("preset", Kind.PAGE_PRESET()),
    ("seed", Kind.PAGE_SEED()),
    ("weights", Kind.PAGE_WEIGHTS()),
    ("inputs_sha256", Kind.PAGE_INPUTS_HASH()),
    ("weights_sha256", Kind.PAGE_WEIGHTS_HASH()),
    ("time", Kind.PAGE_ENDED()),
)
_OF_THE_HOST = {"python": "Python", "numpy": "NumPy"}


def sidecars_of(folder: Path, stems: Sequence[str], side: str) -> Iterator[Sidecar]:
    """The sidecars of a side's judged logs that can be read."""
    for stem in stems:
        try:
            found = read_sidecar(ResultFolder(folder).log(stem, side))
        except UNREADABLE:
            continue
        if found is not None:
            yield found


def environments(results: Sequence[tuple[str, Mapping[str, Sidecar]]]) -> dict[tuple, list[str]]:
    """Both sides' environments -> the titles of their results: (title, side -> sidecar) of each.

    An environment has rows: what, torch's, Paddle's.
    """
    groups: dict[tuple, list[str]] = {}
    for title, sidecars in results:
        if not sidecars:
            continue
        rows = [(word, *_both(sidecars, name)) for name, word in _ENVIRONMENT]
        hosts = [sidecars[side].environment if side in sidecars else {} for side in SIDES]
        for name in dict.fromkeys(key for host in hosts for key in host):
            values = (visible(host.get(name, "–")) for host in hosts)
            rows.append((_OF_THE_HOST.get(name, visible(name)), *values))
        groups.setdefault(tuple(rows), []).append(title)
    return groups


def what_ran(sidecars: Mapping[str, Sidecar]) -> list[tuple[str, str, str]]:
    """Preset, seed, weights and hashes of a result: what, torch's, Paddle's."""
    rows = [(word, *_both(sidecars, name)) for name, word in _OF_A_RESULT]
    return [row for row in rows if row[1:] != ("–", "–")]


def _both(sidecars: Mapping[str, Sidecar], name: str) -> tuple[str, ...]:
    values = (getattr(sidecars[side], name) if side in sidecars else None for side in SIDES)
    return tuple("–" if value is None else visible(str(value)) for value in values)


def diff_log_words(path: Path) -> list[str]:
    """reprod_log's own report; of a long one its beginning and its end, with a line between."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return []
    lines = [visible(line.expandtabs(4).rstrip()) for line in text.split("\n") if line.strip()]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 2], Kind.PAGE_REST_IN(file=path.name), lines[-1]]
    return lines


def choices_of(
    folder: Path, stems: Sequence[str], rows: Sequence[Row], ledger: Container[str]
) -> SimpleNamespace:
    """The discrete choices: those that differ first, then the narrowest.

    ledger   their keys
    Of each its key, verdict, count (of values that were chosen), narrowest margin, None where none
    is known, and what is said of those that differ (flips).
    """
    chosen = {row.key: row for row in rows if row.key in ledger}
    margins: dict[str, float] = {}
    problem = ""
    read = sorted(chosen, key=lambda key: chosen[key].verdict == "IDENTICAL")
    for stem in stems if chosen else ():
        try:
            margins |= _margins(ResultFolder(folder), stem, read[:MOST_CHOICES])
        except UNREADABLE as error:
            problem = Kind.PAGE_MARGINS_UNREADABLE(error=str(error))
    found = []
    for key, row in chosen.items():
        flips = reasons_of(row) if row.verdict != "IDENTICAL" else ""
        about = {"key": key, "verdict": row.verdict, "count": row.size, "flips": flips}
        found.append(SimpleNamespace(margin=margins.get(key), **about))
    # What has no margin comes last.
    found.sort(key=lambda o: (o.verdict == "IDENTICAL", o.margin is None, o.margin or 0.0))
    return SimpleNamespace(total=len(found), shown=found[:SHOWN_CHOICES], problem=problem)


def _margins(files: ResultFolder, stem: str, wanted: Sequence[str]) -> dict[str, float]:
    path = files.log(stem, "torch", RunKind.FLOAT64)
    path = path if path.is_file() else files.log(stem, "torch", RunKind.PLAIN)
    ledger = sidecar_of(path).choices
    found = {}
    with read_log(path) as log:
        for key in wanted:
            margin = ledger.get(key, {}).get("margin", f"{key}:margin")
            if margin in log:
                values = np.asarray(log[margin], np.float64)
                if values.size:
                    found[key] = float(values.min())
    return found
