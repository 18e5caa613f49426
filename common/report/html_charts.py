"""The charts of the report as numbers that its template draws: paths of marks, ticks, labels.

Marks differ in shape, so that no chart is read by its colours alone, and all points of a series are
one path, so that thousands of them stay small.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import CURVES
from twincheck.common.report.html_words import SIDE_NAMES, visible
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.row import FAILING, Row

LEFT, RIGHT, TOP, BOTTOM = 58, 12, 10, 40  # margins
MOST_POINTS = 600  # of a series
MOST_CHARTS = 12  # of one kind, of one result
_LOWEST = 1e-20  # relative: what is smaller is drawn as nothing

# Marks around (x, y): an SVG path each.  A round or a square dot is a line of no length.
_MARKS = {
    "circle": "M{x} {y}h0",
    "square": "M{x} {y}h0",
    "triangle": "M{x} {t}l4 7h-8z",
    "diamond": "M{x} {t}l4 4-4 4-4-4z",
    "cross": "M{l} {t}l8 8m0-8l-8 8",
    "bar": "M{l} {y}h8",
}


@dataclass(frozen=True)
class Series:
    """Points of one kind, or a line."""

    name: str
    mark: str  # of _MARKS; or line, dashed, band
    tone: str  # torch, paddle, noise, gap, allowed, bad: the class of its colour
    path: str


Chart = dict[str, object]  # what a template needs to draw one


class _Axes:
    """Where numbers are on the paper; a logarithmic y axis has a line for zero below it."""

    def __init__(self, width: int, height: int, x_range, y_values: Sequence[float], log: bool):
        self.width, self.height, self.log = width, height, log
        self.x_low, self.x_high = x_range
        values = np.asarray(y_values, np.float64)
        values = values[np.isfinite(values) & ((values > _LOWEST) | (not log))]
        if not values.size:
            values = np.array([1e-8, 1.0] if log else [0.0, 1.0])
        low, high = float(values.min()), float(values.max())
        if log:
            self.y_low, self.y_high = math.floor(math.log10(low)), math.ceil(math.log10(high))
            self.y_high += self.y_high == self.y_low
            self.zero = self.y_low - 0.06 * (self.y_high - self.y_low)
        else:
            room = (high - low or abs(high) or 1.0) * 0.05
            self.y_low, self.y_high = low - room, high + room
            self.zero = self.y_low

    def x(self, value: float) -> float:
        span = (self.x_high - self.x_low) or 1
        inner = self.width - LEFT - RIGHT
        return round(LEFT + inner * (value - self.x_low) / span, 1)

    def y(self, value: float) -> float:
        if self.log:
            value = math.log10(value) if value > _LOWEST else self.zero
        low = self.zero
        inner = self.height - TOP - BOTTOM
        value = min(max(value, low), self.y_high)
        return round(TOP + inner * (1 - (value - low) / (self.y_high - low)), 1)

    def y_ticks(self) -> list[tuple[float, str]]:
        if not self.log:
            ticks = _nice(self.y_low, self.y_high)
            return [(self.y(tick), f"{tick:g}") for tick in ticks]
        step = max(1, math.ceil((self.y_high - self.y_low) / 6))
        ticks = range(self.y_high, self.y_low - 1, -step)
        return [(self.y(10.0**tick), f"1e{tick}") for tick in ticks]

    def x_ticks(self, offset: float = 0) -> list[tuple[float, str]]:
        ticks = [tick for tick in _nice(self.x_low + offset, self.x_high + offset) if tick % 1 == 0]
        return [(self.x(tick - offset), f"{tick:g}") for tick in ticks]

    def marks(self, name: str, mark: str, tone: str, xs: Sequence, ys: Sequence) -> Series:
        """One path for all points; a point that is no number is left out."""
        parts = []
        for x, y in zip(xs, ys, strict=True):
            if y is None or math.isnan(y):
                continue
            x, y = self.x(x), self.y(y if math.isfinite(y) else 10.0**300)
            parts.append(_MARKS[mark].format(x=x, y=y, l=round(x - 4, 1), t=round(y - 4, 1)))
        return Series(name, mark, tone, "".join(dict.fromkeys(parts)))

    def line(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        path, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if not math.isfinite(y):
                pen = "M"
                continue
            path.append(f"{pen}{self.x(x)} {self.y(y)}")
            pen = "L"
        return "".join(path)

    def chart(
        self, title: str, told: str, labels: Sequence[str], *series, hover, first=0, table=()
    ) -> Chart:
        """The chart of what is drawn on these axes, as the template and the page's script read it.

        told     the same in words, for who does not see it
        labels   of x and y
        hover    x, y, the lines that are told there, or the key of the row that tells it
        first    what x counts from
        table    the numbers, headings first
        """
        live = {"x": (self.x_low + first, self.x_high + first), "y": (self.zero, self.y_high)}
        at = ((self.x(x), self.y(y), *said) for x, y, *said in hover if math.isfinite(y))
        live |= {"log": self.log, "hover": [(x, y, lines, visible(key)) for x, y, lines, key in at]}
        y_ticks = self.y_ticks() + ([(self.y(0.0), "0")] if self.log else [])
        about = {"title": title, "told": told, "x_label": labels[0], "y_label": labels[1]}
        about |= {"width": self.width, "height": self.height, "x_ticks": self.x_ticks(first)}
        return {"table": table, "y_ticks": y_ticks, "series": series, "live": live} | about


def _nice(low: float, high: float) -> list[float]:
    """About five round numbers between two."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


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
    bad = [i for i, row in enumerate(rows) if row.verdict in FAILING]
    kept = _thinned(rows, set(bad))

    def relative(name: str) -> list[float]:
        return [
            math.nan if (v := getattr(rows[i], name)) is None else v / rows[i].scale for i in kept
        ]

    difference, gap, allowed = relative("mean_abs"), relative("gap"), relative("allowed")
    shown = [(Kind.CHART_ALLOWED(), "bar", "allowed", allowed)]
    if kind:
        shown.append((Kind.CHART_NOISE_TORCH(), "circle", "torch", relative("noise_ref")))
        shown.append((Kind.CHART_NOISE_PADDLE(), "diamond", "noise", relative("noise_cand")))
    else:
        shown.append((Kind.CHART_DIFFERENCE(), "circle", "noise", difference))
    shown.append((Kind.CHART_GAP(), "square", "good" if kind else "gap", gap))
    every = [value for *_, values in shown for value in values]
    told = [d if math.isnan(g) else g for g, d in zip(gap, difference, strict=True)]
    axes = _Axes(760, 280, (0, max(1, len(rows) - 1)), every, log=True)
    series = [axes.marks(*about, kept, values) for *about, values in shown]
    xs = [row for row in kept if row in set(bad)]
    off = [gap[i] for i, row in enumerate(kept) if row in set(bad)]
    if bad:
        series.append(axes.marks(Kind.CHART_OFF(), "cross", "bad", xs, off))
    order = Kind.CHART_GRADIENTS() if kind else Kind.CHART_TENSORS()
    first = Kind.CHART_FIRST_OFF(key=rows[bad[0]].key) if bad else ""
    most = {"difference": _most(difference), "gap": _most(gap)}
    return axes.chart(
        Kind.CHART_CASE(case=case) if case else Kind.CHART_OF_ALL(),
        Kind.CHART_DEPTH_TOLD(count=len(rows), order=order, **most, first=first),
        (order, Kind.CHART_RELATIVE_TO_SIZE()),
        *series,
        hover=[(i, y, [], rows[i].key) for i, y in zip(kept, told, strict=True)],
    )


def _thinned(rows: Sequence[Row], always: set[int]) -> list[int]:
    """At most so many rows, those with the largest gap of their neighbours."""
    step = math.ceil(len(rows) / MOST_POINTS)
    kept = set(always) if len(always) <= MOST_POINTS else set(sorted(always)[:MOST_POINTS])
    for first in range(0, len(rows), step):
        part = range(first, min(first + step, len(rows)))
        kept.add(max(part, key=lambda i: (rows[i].gap or 0.0) / rows[i].scale))
    return sorted(kept)


def _most(values: Sequence[float]) -> str:
    finite = [value for value in values if math.isfinite(value)]
    return f"{max(finite):.1e}" if finite else "–"


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
    groups: dict[tuple[str, str], list[tuple[int, str, Row]]] = {}
    for row in rows:
        if row.measure == "claim" or row.noise_only or row.scale is None:
            continue
        key = Key.parse(row.key, cases)
        if key.is_step and (key.kind, "gap") in _DRIFTING:
            setup, _, number = key.run.rstrip("/").rpartition("/")
            if number.isdecimal():
                groups.setdefault((key.case, setup), []).append((int(number), key.kind, row))
    failing = {
        name: not any(row.verdict in FAILING for _, _, row in own) for name, own in groups.items()
    }
    for case, setup in sorted(groups, key=failing.get)[:MOST_CHARTS]:
        yield _drift(visible(f"{case}{setup}".strip("/")), groups[case, setup])


def _drift(name: str, found: Sequence[tuple[int, str, Row]]) -> Chart:
    steps = sorted({step for step, _, _ in found})
    values = {of: [_largest(found, step, *of) for step in steps] for of in _DRIFTING}
    every = [value for series in values.values() for value in series]
    axes = _Axes(380, 230, (steps[0], max(steps[-1], steps[0] + 1)), every, log=True)
    series = [axes.marks(*_DRIFTING[of], steps, ys) for of, ys in values.items()]
    table = [(Kind.HEADING_STEP(), *(one.name for one in series))]
    for i, step in enumerate(steps):
        numbers = (ys[i] for ys in values.values())
        table.append((str(step + 1), *(f"{v:.1e}" if math.isfinite(v) else "–" for v in numbers)))
    return axes.chart(
        Kind.CHART_SETUP(setup=name),
        Kind.CHART_DRIFT_TOLD(count=len(steps)),
        (Kind.CHART_OPTIMIZER_STEP(), Kind.CHART_RELATIVE_DIFFERENCE()),
        *series,
        first=1,
        table=table,
        hover=[
            (
                step,
                gap,
                [Kind.NOTE_OF(whose=w, note=n) for w, n in zip(table[0], line, strict=True)],
                "",
            )
            for step, gap, line in zip(steps, values["grad", "gap"], table[1:], strict=True)
        ],
    )


def _largest(found, step: int, kind: str, of: str) -> float:
    """The largest difference of a step's tensors of a kind, by the largest of their sizes."""
    own = [row for s, k, row in found if s == step and k == kind]
    size = max((row.scale for row in own), default=0.0)
    values = [v for row in own if (v := getattr(row, of)) is not None]
    return max(values) / size if size and values else math.nan


# ---- the curves of a training --------------------------------------------------------------------

# How what x counts is called, what is said at the end, and at a point.
_STEPS = Kind.HEADING_STEP, Kind.CHART_STEPS_TOLD, Kind.CHART_STEP_TOLD
_EPOCHS = Kind.CHART_EPOCH, Kind.CHART_EPOCHS_TOLD, Kind.CHART_EPOCH_TOLD


def training_charts(folder: Path, rows: Sequence[Row]) -> Iterator[Chart]:
    """Step 5: both sides' losses, their difference beside what is allowed of it, the scores."""
    files = ResultFolder(folder)
    paths = [files.log("train_full", "torch"), files.log("train_full", "paddle")]
    if not all(path.is_file() for path in paths):
        return
    with read_log(paths[0]) as torch_log, read_log(paths[1]) as paddle_log:
        losses = [np.asarray(log["curve/loss"], np.float64) for log in (torch_log, paddle_log)]
        known = {f"curve/{name}" for name in CURVES}
        scores = {
            key.rpartition("/")[2]: [
                np.asarray(log[key], np.float64) for log in (torch_log, paddle_log)
            ]
            for key in torch_log
            if key.startswith("curve/") and key not in known and key in paddle_log
        }
    steps = min(curve.size for curve in losses)
    judged = [row for row in rows if row.key.startswith("train/drift/")]
    if steps:
        limits = np.repeat([r.allowed or 0.0 for r in judged], [r.size for r in judged])
        losses = [curve[:steps] for curve in losses]
        titles = Kind.CHART_LOSS(), Kind.CHART_LOSS_AXIS()
        yield _two_curves(titles, _STEPS, losses, limits)
    if judged and all(row.size for row in judged):
        yield _drift_of_losses(judged)
    for name, (a, b) in scores.items():
        epochs = min(a.size, b.size)
        if epochs and a.ndim == 1 and b.ndim == 1:
            name = visible(name).replace("_", " ")
            titles = Kind.CHART_SCORE(name=name), Kind.CHART_SCORE_AXIS(name=name.lower())
            yield _two_curves(titles, _EPOCHS, [a[:epochs], b[:epochs]])


def _two_curves(
    titles: tuple[Reason, Reason],
    words: tuple[Kind, Kind, Kind],
    curves: Sequence[np.ndarray],
    limits: np.ndarray | tuple = (),
) -> Chart:
    """Both sides' curve; titles: of the chart and of its y axis; words: of what x counts."""
    count = curves[0].size  # at most so many of its steps, spread evenly, first and last among them
    kept = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))
    axes = _Axes(380, 230, (0, max(1, count - 1)), np.concatenate(curves), log=False)
    styles = zip(SIDE_NAMES.values(), SIDES, ("line", "dashed"), curves, strict=True)
    series = [Series(name(), mark, of, axes.line(kept, c[kept])) for name, of, mark, c in styles]
    band = kept[kept < len(limits)]
    if band.size:
        edges = [curves[0][band] + sign * limits[band] for sign in (1, -1)]
        path = axes.line([*band, *band[::-1]], [*edges[0], *edges[1][::-1]]) + "z"
        series.insert(0, Series(Kind.CHART_ENVELOPE(), "band", "allowed", path))
    of_axis, at_end, at_point = words
    told = at_end(count=count, torch=curves[0][-1], paddle=curves[1][-1])
    hover = [
        (i, a, [at_point(number=i + 1, torch=a, paddle=b, apart=a - b)], "")
        for i, a, b in zip(kept.tolist(), *(c[kept] for c in curves), strict=True)
    ]
    labels = of_axis(), titles[1]
    return axes.chart(titles[0], told, labels, *series, first=1, hover=hover)


def _drift_of_losses(rows: Sequence[Row]) -> Chart:
    ends = np.cumsum([row.size for row in rows])
    edges = [edge for row, end in zip(rows, ends, strict=True) for edge in (end - row.size, end)]
    limits, drift = ([getattr(row, of) or 0.0 for row in rows] for of in ("allowed", "gap"))
    axes = _Axes(380, 230, (0, int(ends[-1])), [*limits, *drift], log=True)
    outline, floor = axes.line(edges, np.repeat(limits, 2)), axes.y(0.0)
    band = f"{outline}L{axes.x(edges[-1])} {floor}L{axes.x(edges[0])} {floor}z" if outline else ""
    middle = [float(end - row.size / 2) for row, end in zip(rows, ends, strict=True)]
    return axes.chart(
        Kind.CHART_LOSSES(),
        Kind.CHART_LOSSES_TOLD(apart=_most(drift), allowed=_most(limits)),
        (Kind.HEADING_STEP(), Kind.CHART_LOSSES_AXIS()),
        Series(Kind.CHART_LOSSES_ALLOWED(), "band", "torch", band),
        Series(Kind.CHART_LOSSES_APART(), "dashed", "paddle", axes.line(middle, drift)),
        first=1,
        hover=[(x, y, [], row.key) for x, y, row in zip(middle, drift, rows, strict=True)],
    )
