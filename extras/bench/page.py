"""The table and the picture of docs/performance.md, from what was measured."""

import datetime
import os
import platform
from pathlib import Path

import numpy as np

from tools.readme import fill
from twincheck.common.report import marks
from twincheck.extras.bench import Kind
from twincheck.extras.bench.comparisons import MEGA, Comparison, Series
from twincheck.extras.bench.turns import CPU, MEMORY, WALL, passed

MARKS = {
    "reformer_torch": marks.TORCH,
    "reformer_paddle": marks.PADDLE,
    "transformers": {"color": marks.GREEN, "marker": "^"},
    "paddlenlp": {"color": marks.BLACK, "marker": "x"},
    "judging": marks.TORCH,
    "reprod_log": {"color": marks.GREEN, "marker": "^"},
}
NAMES = {
    "reformer_torch": Kind.TORCH_TWIN(),
    "reformer_paddle": Kind.PADDLE_TWIN(),
    "judging": Kind.THIS_WORKBENCH(),
}
PICTURE = "../pics/performance.png"  # as the page links it
SIGNS = {"faster": "≥", "slower": "≤", "leaner": "≤", "layer": "≤"}


def machine() -> str:
    """Which processor, when, and how busy it was: what a number is worth."""
    lines = (
        Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else ()
    )
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    load = os.getloadavg()[0]
    return f"{name}, {datetime.date.today()}, {load:.0f} waiting for {os.cpu_count()} cores"


def line(one: Comparison, found: dict) -> str:
    """A row for the terminal, its ratio last."""
    ratios = {what: _cell(one, found[what]) for what in (WALL, CPU, MEMORY) if what in found}
    cells = [Kind.CELL(what=what, ratio=ratio) for what, ratio in ratios.items()]
    word = Kind.REACHED() if passed(one, found) else Kind.MISSED()
    return Kind.ROW(title=one.title, cells=cells, goal=_goal(one), word=word)


def _goal(one: Comparison) -> str:
    goal = Kind.GOAL_IN_MB if one.kind == "layer" else Kind.GOAL
    return goal(sign=SIGNS[one.kind], goal=one.goal)


def _cell(one: Comparison, ratio: dict) -> str:
    """A ratio and the spread of its turns; fewer digits than the spread has are enough."""
    if one.kind == "layer":
        return Kind.RATIO_IN_MB(ratio=ratio["ratio"])
    if ratio["lowest"] == ratio["highest"]:
        return Kind.RATIO(ratio=ratio["ratio"])
    return Kind.RATIO_SPREAD(**{name: ratio[name] for name in ("ratio", "lowest", "highest")})


def as_table(rows: dict, results: dict) -> str:
    """A line a comparison."""
    lines = [Kind.HEAD_OF_ROWS(), "|---|---|---|---|---|"]
    for name, one in rows.items():
        if not isinstance(one, Comparison):
            continue
        found = results[name]
        first = found[MEMORY if MEMORY in found else CPU]
        wall = _cell(one, found[WALL]) if WALL in found else "–"
        title = Kind.TITLE_AND_NOTE(title=one.title, note=one.note) if one.note else one.title
        word = Kind.REACHED() if passed(one, found) else Kind.MISSED_IN_TABLE()
        lines.append(f"| {title} | {_goal(one)} | {_cell(one, first)} | {wall} | {word} |")
    machines = {results[name]["machine"] for name in rows}
    return "\n".join([*lines, "", Kind.MEASURED_ON(machines=measured_on(machines))])


def measured_on(machines: set[str]) -> list[str]:
    """A processor and day once (see `machine`), with the lowest and highest load."""
    loads: dict[tuple[str, str], list[int]] = {}
    for text in sorted(machines):
        where, _, load = text.rpartition(", ")
        waiting, _, cores = load.partition(" waiting for ")
        loads.setdefault((where, cores), []).append(int(waiting))
    return [
        Kind.MACHINE_AND_LOAD(machine=machine, cores=cores, least=min(of), most=max(of))
        for (machine, cores), of in loads.items()
    ]


def exponents(rows: dict, results: dict) -> str:
    """The picture, and a line a panel and program: which power of the quantity time and memory
    grow with; empty where no panel was measured."""
    panels = {name: one for name, one in rows.items() if isinstance(one, Series)}
    if not panels:
        return Kind.NO_PANEL()
    lines = [f"![{Kind.AGAINST(titles=[one.title for one in panels.values()])}]({PICTURE})"]
    lines += ["", Kind.HEAD_OF_EXPONENTS(), "|---|---|---|---|"]
    for name, one in panels.items():
        for program, points in results[name]["points"].items():
            powers = [f"{power(one, points, what):.2f}" for what in (CPU, MEMORY)]
            cells = [one.title, NAMES.get(program, program), *powers]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def power(one: Series, points: list[dict], what: str) -> float:
    """The exponent of a power law through the points, by least squares of the logarithms."""
    values = np.log([[point[one.quantity], max(point[what], 1e-9)] for point in points])
    return float(np.polyfit(*values.T, 1)[0])


def filled(text: str, rows: dict, results: dict) -> str:
    """The page's text with its generated parts anew."""
    if not rows:
        return text
    return fill(text, {"bench": as_table(rows, results), "growth": exponents(rows, results)})


def draw(rows: dict, results: dict, target: Path) -> None:
    """A column a panel: CPU time above, memory below, each with its fitted exponent."""
    if not rows:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(rows), 7.0))
    panels = figure.subplots(2, len(rows), squeeze=False)
    for column, (name, one) in enumerate(rows.items()):
        for panel, what, unit in zip(
            panels[:, column],
            (CPU, MEMORY),
            (Kind.AXIS_OF_TIME(), Kind.AXIS_OF_MEMORY()),
            strict=True,
        ):
            for program, points in results[name]["points"].items():
                x = [point[one.quantity] for point in points]
                y = [point[what] / (MEGA if what == MEMORY else 1) for point in points]
                said = {"program": NAMES.get(program, program), "power": power(one, points, what)}
                label = Kind.LINE_OF_PROGRAM(**said)
                panel.plot(x, y, lw=1, label=label, **MARKS.get(program, marks.TORCH))
            panel.set(xscale="log", yscale="log", ylabel=unit, xlabel=one.title)
            panel.set_xticks(x, [f"{value:,}" for value in x])
            panel.minorticks_off()
            panel.grid(alpha=0.3)
            panel.legend(fontsize=7, frameon=False)
    figure.tight_layout()
    marks.save(figure, target)
