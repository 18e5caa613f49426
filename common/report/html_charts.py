"""The charts of the page, each as one table of numbers that the page's script draws.

page/charts.js knows the marks, the axes and what a point tells.  Who runs no script reads what a
chart shows in words, and the rows themselves.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import CURVES
from twincheck.common.report.html_rows import plain_number
from twincheck.common.report.html_words import SIDE_NAMES, visible
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import FAILING, Row

MOST_POINTS = 600  # of a series
MOST_CHARTS = 12  # of one kind, of one result


@dataclass(frozen=True)
class Series:
    """A column of a chart's table: points of one kind, a line or a band; NaN is not drawn."""

    name: str
    mark: str  # circle, square, triangle, diamond, cross, bar, line, dashed or band
    tone: str  # torch, paddle, noise, gap, allowed, bad: the class of its colour
    values: Sequence[float]
    low: Sequence[float] = ()  # where a band ends below; empty: at the bottom


@dataclass(frozen=True)
class Chart:
    """What is drawn, and the same in words for who does not see it.

    title, told  what it shows, and what is to be seen in it
    labels       of x and y
    first        what x counts from
    keys         of the rows that the points are of; none where the series themselves tell it
    table        true where its numbers are worth reading one by one
    """

    title: str
    told: str
    labels: tuple[str, str]
    x: Sequence[int]
    series: Sequence[Series]
    log: bool = False
    first: int = 0
    keys: Sequence[str] = ()
    table: bool = False
    wide: bool = False
    epochs: bool = False  # x counts these, and not steps

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Give the lines of its table: x, then a number of each series."""
        for i, x in enumerate(self.x):
            values = (one.values[i] for one in self.series)
            yield str(x + self.first), *(f"{v:.1e}" if math.isfinite(v) else "–" for v in values)

    def as_json(self, number) -> dict[str, object]:
        """Return plain values for the script; `number` gives a text's number."""

        def plain(values: Sequence[float]) -> list:
            # Of curves the difference is told.
            return [plain_number(value, 3 if self.log else 12) for value in values]

        told = {"x": [int(x) for x in self.x], "log": self.log, "first": self.first}
        told |= {"epochs": self.epochs, "keys": [visible(key) for key in self.keys]}
        return told | {
            "series": [
                {"name": number(one.name), "mark": one.mark, "tone": one.tone}
                | {"values": plain(one.values), "low": plain(one.low)}
                for one in self.series
            ]
        }


# ---- the error of each tensor in the order of the forward ---------------------------------------


def depth_charts(rows: Sequence[Row], cases: Sequence[str], kind: str = "") -> Iterator[Chart]:
    """One chart a case: each output's difference and gap, relative to its size.

    kind   `grad`: of gradients, with both sides' float32 noise
    """
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        if row.measure in ("claim", "count") or not row.scale:
            continue
        key = Key.parse(row.key, cases)
        if key.kind != kind or key.is_input or key.choice or key.local or kind and key.run:
            continue
        by_case.setdefault(key.case, []).append(row)
    worst_first = sorted(by_case, key=lambda c: all(r.verdict not in FAILING for r in by_case[c]))
    for case in worst_first[:MOST_CHARTS]:
        if len(by_case[case]) > 2:
            yield _depth(visible(case.rstrip("/")), by_case[case], kind)


def _depth(case: str, rows: Sequence[Row], kind: str) -> Chart:
    bad = [row for row in rows if row.verdict in FAILING]
    kept = _thinned(rows)
    shown = [rows[i] for i in kept]

    def relative(name: str) -> list[float]:
        values = ((getattr(row, name), row.scale) for row in shown)
        return [math.nan if value is None else value / scale for value, scale in values]

    difference, gap = relative("mean_abs"), relative("gap")
    series = [Series(Kind.CHART_ALLOWED(), "bar", "allowed", relative("allowed"))]
    if kind:
        noise = (relative("noise_ref"), relative("noise_cand"))
        series.append(Series(Kind.CHART_NOISE_TORCH(), "circle", "torch", noise[0]))
        series.append(Series(Kind.CHART_NOISE_PADDLE(), "diamond", "noise", noise[1]))
    else:
        series.append(Series(Kind.CHART_DIFFERENCE(), "circle", "noise", difference))
    series.append(Series(Kind.CHART_GAP(), "square", "good" if kind else "gap", gap))
    if bad:
        off = [g if r.verdict in FAILING else math.nan for r, g in zip(shown, gap, strict=True)]
        series.append(Series(Kind.CHART_OFF(), "cross", "bad", off))
    order = Kind.CHART_GRADIENTS() if kind else Kind.CHART_TENSORS()
    first = Kind.CHART_FIRST_OFF(key=bad[0].key) if bad else ""
    most = {"difference": _most(difference), "gap": _most(gap)}
    return Chart(
        Kind.CHART_CASE(case=case) if case else Kind.CHART_OF_ALL(),
        Kind.CHART_DEPTH_TOLD(count=len(rows), order=order, **most, first=first),
        (order, Kind.CHART_RELATIVE_TO_SIZE()),
        kept,
        series,
        log=True,
        keys=[row.key for row in shown],
        wide=True,
    )


def _thinned(rows: Sequence[Row]) -> list[int]:
    """At most so many rows, those with the largest gap of their neighbours, and as many failing."""
    step = math.ceil(len(rows) / MOST_POINTS)
    kept = {*[i for i, row in enumerate(rows) if row.verdict in FAILING][:MOST_POINTS]}
    for first in range(0, len(rows), step):
        part = range(first, min(first + step, len(rows)))
        kept.add(max(part, key=lambda i: (rows[i].gap or 0.0) / rows[i].scale))
    return sorted(kept)


def _most(values: Sequence[float]) -> str:
    most = max(filter(math.isfinite, values), default=math.nan)
    return "–" if math.isnan(most) else f"{most:.1e}"


# ---- gradients and weights over an optimizer's steps ---------------------------------------------

# Kind of a row, and what is drawn of it -> how that is called, its mark and its tone.
_DRIFTING = {
    ("grad", "mean_abs"): (Kind.CHART_GRADIENTS_DIFFERENCE(), "circle", "noise"),
    ("grad", "gap"): (Kind.CHART_GRADIENTS_GAP(), "triangle", "gap"),
    ("weight", "mean_abs"): (Kind.CHART_WEIGHTS_DIFFERENCE(), "square", "noise"),
    ("weight", "gap"): (Kind.CHART_WEIGHTS_GAP(), "diamond", "gap"),
}


def drift_charts(rows: Sequence[Row], cases: Sequence[str]) -> Iterator[Chart]:
    """One chart for each case and set-up: the largest difference after each step, by kind."""
    groups: dict[tuple[str, str], dict[int, list[tuple[str, Row]]]] = {}
    for row in rows:
        if row.measure == "claim" or row.noise_only or row.scale is None:
            continue
        key = Key.parse(row.key, cases)
        setup, _, number = key.run.rstrip("/").rpartition("/")
        if key.is_step and (key.kind, "gap") in _DRIFTING and number.isdecimal():
            steps = groups.setdefault((key.case, setup), {})
            steps.setdefault(int(number), []).append((key.kind, row))

    def agrees(group: tuple[str, str]) -> bool:
        return all(r.verdict not in FAILING for of in groups[group].values() for _, r in of)

    for case, setup in sorted(groups, key=agrees)[:MOST_CHARTS]:
        yield _drift(visible(f"{case}{setup}".strip("/")), groups[case, setup])


def _drift(name: str, found: Mapping[int, Sequence[tuple[str, Row]]]) -> Chart:
    steps = sorted(found)
    return Chart(
        Kind.CHART_SETUP(setup=name),
        Kind.CHART_DRIFT_TOLD(count=len(steps)),
        (Kind.CHART_OPTIMIZER_STEP(), Kind.CHART_RELATIVE_DIFFERENCE()),
        steps,
        [
            Series(*about, [_largest(found[step], *of) for step in steps])
            for of, about in _DRIFTING.items()
        ],
        log=True,
        first=1,
        table=True,
    )


def _largest(found: Sequence[tuple[str, Row]], kind: str, of: str) -> float:
    """The largest difference of a step's tensors of a kind, by the largest of their sizes."""
    own = [row for k, row in found if k == kind]
    size = max((row.scale for row in own), default=0.0)
    values = [v for row in own if (v := getattr(row, of)) is not None]
    return max(values) / size if size and values else math.nan


# ---- the curves of a training --------------------------------------------------------------------


def training_charts(folder: Path, rows: Sequence[Row]) -> Iterator[Chart]:
    """Step 5: both sides' losses, their difference beside what is allowed of it, the scores."""
    paths = [ResultFolder(folder).log("train_full", side) for side in SIDES]
    if not all(path.is_file() for path in paths):
        return
    with read_log(paths[0]) as torch_log, read_log(paths[1]) as paddle_log:
        known = {f"curve/{name}" for name in CURVES} - {"curve/loss"}
        drawn = [
            k for k in torch_log if k.startswith("curve/") and k in paddle_log and k not in known
        ]
        curves = {
            key.removeprefix("curve/"): [
                np.asarray(log[key], np.float64) for log in (torch_log, paddle_log)
            ]
            for key in drawn
        }
    judged = [row for row in rows if row.key.startswith("train/drift/")]
    limits = np.repeat([row.allowed or 0.0 for row in judged], [row.size for row in judged])
    losses = curves.pop("loss")
    titles = Kind.CHART_LOSS(), Kind.CHART_LOSS_AXIS()
    yield from _two_curves(titles, losses, limits)
    if judged and all(row.size for row in judged):
        yield _drift_of_losses(judged)
    for name, sides in curves.items():
        name = visible(name.rpartition("/")[2]).replace("_", " ")
        titles = Kind.CHART_SCORE(name=name), Kind.CHART_SCORE_AXIS(name=name.lower())
        yield from _two_curves(titles, sides, epochs=True)


def _two_curves(
    titles: tuple[str, str],
    curves: Sequence[np.ndarray],
    limits: np.ndarray | tuple = (),
    epochs: bool = False,
) -> Iterator[Chart]:
    """Both sides' curve; titles: of the chart and of its y axis."""
    count = min(curve.size for curve in curves)
    if not count or any(curve.ndim != 1 for curve in curves):
        return
    # At most so many of its steps, spread evenly, first and last among them.
    kept = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))
    torch, paddle = (curve[:count] for curve in curves)
    series = [
        Series(name(), mark, side, curve[kept])
        for (side, name), mark, curve in zip(
            SIDE_NAMES.items(), ("line", "dashed"), (torch, paddle), strict=True
        )
    ]
    if len(limits):
        band = np.append(limits[:count], np.full(max(0, count - len(limits)), np.nan))[kept]
        edges = torch[kept] + band, torch[kept] - band
        series.insert(0, Series(Kind.CHART_ENVELOPE(), "band", "allowed", *edges))
    ends = Kind.CHART_EPOCHS_TOLD if epochs else Kind.CHART_STEPS_TOLD
    told = ends(count=count, torch=torch[-1], paddle=paddle[-1])
    labels = Kind.CHART_EPOCH() if epochs else Kind.HEADING_STEP(), titles[1]
    yield Chart(titles[0], told, labels, kept, series, first=1, epochs=epochs)


def _drift_of_losses(rows: Sequence[Row]) -> Chart:
    ends = np.cumsum([row.size for row in rows])
    limits, drift = ([getattr(row, of) or 0.0 for row in rows] for of in ("allowed", "gap"))
    allowed = Series(Kind.CHART_LOSSES_ALLOWED(), "band", "torch", np.repeat(limits, 2))
    apart = Series(Kind.CHART_LOSSES_APART(), "dashed", "paddle", np.repeat(drift, 2))
    return Chart(
        Kind.CHART_LOSSES(),
        Kind.CHART_LOSSES_TOLD(apart=_most(drift), allowed=_most(limits)),
        (Kind.HEADING_STEP(), Kind.CHART_LOSSES_AXIS()),
        [edge for row, end in zip(rows, ends, strict=True) for edge in (end - row.size, end)],
        [allowed, apart],
        log=True,
        first=1,
        keys=[row.key for row in rows for _ in range(2)],
    )
