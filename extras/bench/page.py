"""The table and the picture of docs/performance.md, from what was measured."""

import datetime
import os
import platform
from pathlib import Path

import numpy as np

from tools.readme import fill
from twincheck.common.report import marks
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
    "reformer_torch": "torch twin",
    "reformer_paddle": "Paddle twin",
    "judging": "this workbench",
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
    cells = ", ".join(
        f"{what} {_cell(one, found[what])}" for what in (WALL, CPU, MEMORY) if what in found
    )
    word = "reached" if passed(one, found) else "MISSED"
    return f"{one.title}: {cells}; goal {_goal(one)}: {word}"


def _goal(one: Comparison) -> str:
    return f"{SIGNS[one.kind]} {one.goal:g}{' MB' if one.kind == 'layer' else ''}"


def _cell(one: Comparison, ratio: dict) -> str:
    """A ratio and the spread of its turns; fewer digits than the spread has are enough."""
    if one.kind == "layer":
        return f"{ratio['ratio']:.1f} MB"
    if ratio["lowest"] == ratio["highest"]:
        return f"{ratio['ratio']:.4g}"
    return f"{ratio['ratio']:.4g} ({ratio['lowest']:.3g} to {ratio['highest']:.3g})"


def as_table(rows: dict, results: dict) -> str:
    """A line a comparison."""
    lines = ["| what | goal | CPU time or memory | wall time | |", "|---|---|---|---|---|"]
    for name, one in rows.items():
        if not isinstance(one, Comparison):
            continue
        found = results[name]
        first = found[MEMORY if MEMORY in found else CPU]
        wall = _cell(one, found[WALL]) if WALL in found else "–"
        title = one.title + (f" ({one.note})" if one.note else "")
        word = "reached" if passed(one, found) else "**missed**"
        lines.append(f"| {title} | {_goal(one)} | {_cell(one, first)} | {wall} | {word} |")
    machines = {results[name]["machine"] for name in rows}
    return "\n".join([*lines, "", f"Measured on: {measured_on(machines)}."])


def measured_on(machines: set[str]) -> str:
    """A processor and day once (see `machine`), with the lowest and highest load."""
    loads: dict[tuple[str, str], list[int]] = {}
    for text in sorted(machines):
        where, _, load = text.rpartition(", ")
        waiting, _, cores = load.partition(" waiting for ")
        loads.setdefault((where, cores), []).append(int(waiting))
    return "; ".join(
        f"{where}, {cores}, load {min(of)} to {max(of)}" for (where, cores), of in loads.items()
    )


def exponents(rows: dict, results: dict) -> str:
    """The picture, and a line a panel and program: which power of the quantity time and memory
    grow with; empty where no panel was measured."""
    panels = {name: one for name, one in rows.items() if isinstance(one, Series)}
    if not panels:
        return "No panel was measured yet."
    lines = [f"![Time and memory against {', '.join(o.title for o in panels.values())}]({PICTURE})"]
    lines += ["", "| against | program | CPU time | memory |", "|---|---|---|---|"]
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
            ("CPU seconds a step", "MB above the model"),
            strict=True,
        ):
            for program, points in results[name]["points"].items():
                x = [point[one.quantity] for point in points]
                y = [point[what] / (MEGA if what == MEMORY else 1) for point in points]
                label = f"{NAMES.get(program, program)}: exponent {power(one, points, what):.2f}"
                panel.plot(x, y, lw=1, label=label, **MARKS.get(program, marks.TORCH))
            panel.set(xscale="log", yscale="log", ylabel=unit, xlabel=one.title)
            panel.set_xticks(x, [f"{value:,}" for value in x])
            panel.minorticks_off()
            panel.grid(alpha=0.3)
            panel.legend(fontsize=7, frameon=False)
    figure.tight_layout()
    marks.save(figure, target)
