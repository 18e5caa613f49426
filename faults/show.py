"""What `make faults` found: on the terminal, as the README's table, and as a picture."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from faults.fault import AREAS
from twincheck.common.report import marks

MARKS = {"caught": "[green]caught[/green]", "missed": "[red]MISSED[/red]"}
# What a tile shows: its colour, the mark in it and that mark's colour, and what it means.
TILES = {
    "origin": (marks.BLUE, "o", "#ffffff", "caught, and its first row named"),
    "caught": ("#a9d5f2", "_", marks.BLACK, "caught"),
    "right": (marks.BLUE, "None", marks.BLACK, "a correct port passed"),
    "missed": (marks.RED, "x", marks.BLACK, "missed, or a correct port failed"),
    "blind": ("#d5d5d5", "|", marks.BLACK, "fails, but the correct port too"),
    "no logs": ("#ffffff", "^", marks.GREY, "refused before there were logs"),
}
TOOLS = {"reprod_log": "reprod_log, mean 1e-6", "padiff": "PaDiff, default"}


def peer(fault: dict, tool: str) -> str:
    """What a tool's rule amounts to: caught, missed, blind (fails correct logs too), no logs."""
    if fault["peers"][tool] == "no logs":
        return "no logs"
    if fault["peers"][tool] == "passes":
        return "missed"
    return "caught" if fault["control_peers"][tool] == "passes" else "blind"


def rates(found: dict) -> dict[str, int]:
    """The numbers of the last line."""
    faults, controls = found["faults"], found["controls"]
    numbers = {
        "faults": len(faults),
        "caught": sum(fault["caught"] for fault in faults),
        "origin": sum(fault["origin_right"] for fault in faults),
        "line": sum(fault["patched_line"] for fault in faults),
        "controls": len(controls),
        "control_alarms": sum(control["exit_code"] != 0 for control in controls),
        "hard": len(found["hard"]),
        "hard_alarms": sum(pair["exit_code"] != 0 for pair in found["hard"]),
    }
    for tool in TOOLS:
        said = [peer(fault, tool) for fault in faults]
        numbers[f"{tool}_seen"] = sum(word != "no logs" for word in said)
        numbers[f"{tool}_fails"] = sum(word in ("caught", "blind") for word in said)
        numbers[f"{tool}_caught"] = said.count("caught")
        numbers[f"{tool}_alarms"] = sum(c["peers"][tool] == "fails" for c in controls)
    return numbers


def sentences(found: dict) -> list[str]:
    """The result in words: what `make faults` ends with and the README repeats."""
    n = rates(found)
    told = [
        f"{n['caught']} of {n['faults']} faults caught, {n['origin']} with the right origin; "
        f"{n['control_alarms']} false alarms in {n['controls']} correct runs of the same checks"
    ]
    if n["hard"]:
        guide = sum(pair["guide_passed"] is False for pair in found["hard"])
        told.append(
            f"{n['hard_alarms']} false alarms in {n['hard']} correct hard pairs, of which the "
            f"guide's rule fails {guide}"
        )
    for tool, name in TOOLS.items():
        told.append(
            f"{name}: fails {n[f'{tool}_fails']} of the {n[f'{tool}_seen']} faults that leave "
            f"logs, and {n[f'{tool}_alarms']} of the {n['controls']} correct runs; "
            f"tells {n[f'{tool}_caught']} faults from the correct run"
        )
    return told


def on_terminal(found: dict) -> None:
    """The table, what went wrong, and the sentences."""
    console = Console()
    console = console if console.is_terminal else Console(width=150)
    table = Table(title="planted faults", title_justify="left")
    for heading in ("step", "model", "fault", "verdict", "first row that is off"):
        table.add_column(heading, overflow="fold")
    for heading in ("origin", "reprod_log", "PaDiff"):
        table.add_column(heading)
    for fault in found["faults"]:
        said = fault["first"] or fault["sentence"][:120]
        table.add_row(
            str(fault["step"]),
            fault["model"],
            f"{fault['id']}: {escape(fault['what'])}",
            MARKS["caught" if fault["caught"] else "missed"],
            escape(said),
            "[green]right[/green]" if fault["origin_right"] else "[red]wrong[/red]",
            peer(fault, "reprod_log"),
            peer(fault, "padiff"),
        )
    console.print(table)
    for fault in found["faults"]:
        if not fault["origin_right"]:
            console.print(
                escape(
                    f"{fault['id']}: wanted {fault['wanted']}; exit status {fault['exit_code']}, "
                    f"first {fault['first']}, origins {fault['origins']} {fault['sentence']}"
                ),
                soft_wrap=True,
            )
        for step, status in fault["earlier"].items():
            if status != 0:
                console.print(f"{fault['id']}: step {step} should have passed", soft_wrap=True)
    for control in found["controls"]:
        if control["exit_code"] != 0:
            console.print(escape(f"a correct run is red: {control}"), soft_wrap=True)
    for pair in found["hard"]:
        if pair["exit_code"] != 0:
            console.print(escape(f"a correct hard pair is red: {pair}"), soft_wrap=True)
    for sentence in sentences(found):
        console.print(escape(sentence), soft_wrap=True)
    console.print(f"{found['seconds']:.0f} s, {found['cpu_seconds']:.0f} s of CPU")


def as_markdown(found: dict) -> str:
    """The README's part: the sentences, then every fault in a table that opens on a click."""
    words = {"caught": "caught", "missed": "missed", "blind": "fails correct ports too"}
    lines = [f"* {sentence}" for sentence in sentences(found)]
    lines += ["", "<details><summary>Every fault</summary>", ""]
    lines += [
        "| step | model | fault | caught | origin named | reprod_log | PaDiff |",
        "|---|---|---|---|---|---|---|",
    ]
    for fault in found["faults"]:
        tools = (words.get(peer(fault, tool), "no logs") for tool in TOOLS)
        named = fault["wanted"] if fault["refused"] else fault["first"]
        lines.append(
            f"| {fault['step']} | {fault['model']} | {fault['what']} | "
            f"{'yes' if fault['caught'] else '**no**'} | "
            f"{'`' + named + '`' if fault['origin_right'] else '**wrong**'} | "
            + " | ".join(tools)
            + " |"
        )
    return "\n".join([*lines, "", "</details>"])


def ours(fault: dict) -> str:
    """What our own tile shows."""
    if not fault["caught"]:
        return "missed"
    return "origin" if fault["origin_right"] else "caught"


def draw(found: dict, target: Path) -> None:
    """Write faults_figure's picture."""
    marks.save(faults_figure(found), target)


def faults_figure(found: dict):
    """Every fault as a tile, in the same place under each of three tools; below, correct ports."""
    from matplotlib.figure import Figure

    n = rates(found)
    columns = {"this workbench": ours}
    for tool, name in TOOLS.items():
        columns[name] = lambda fault, tool=tool: peer(fault, tool)
    titles = [f"{n['caught']} of {n['faults']} caught, {n['control_alarms']} false alarms"]
    titles += [
        f"{n[f'{tool}_caught']} of {n[f'{tool}_seen']} told from the correct port" for tool in TOOLS
    ]
    groups = {area: [fault for fault in found["faults"] if fault["area"] == area] for area in AREAS}
    groups = {area: faults for area, faults in groups.items() if faults}
    widest = max(MOST_IN_A_LINE, *(len(faults) for faults in groups.values()))
    # Correct ports, several lines of them, come last.
    lines = len(groups) + -(-len(found["controls"]) // widest)
    figure = Figure(figsize=(3 * (0.165 * widest + 0.3) + 1.4, 0.29 * lines + 1.7))
    panels = figure.subplots(1, 3, sharey=True)
    used: set[str] = set()
    for panel, (name, tile), title in zip(panels, columns.items(), titles, strict=True):
        tool = next((tool for tool, told in TOOLS.items() if told == name), None)
        shown = {area: [tile(fault) for fault in faults] for area, faults in groups.items()}
        alarms = [alarm(control, tool) for control in found["controls"]]
        shown["correct ports"] = ["missed" if wrong else "right" for wrong in alarms]
        used |= {word for words in shown.values() for word in words}
        _draw_tool(panel, shown, widest)
        panel.set_title(f"{name}\n{title}", fontsize=10)
    figure.legend(
        [_handle(word) for word in TILES if word in used],
        [meaning for word, (*_, meaning) in TILES.items() if word in used],
        loc="lower center",
        ncols=len(TILES),
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0.42 / figure.get_figheight(), 1, 1))
    return figure


MOST_IN_A_LINE = 29  # tiles, unless an area has more


def alarm(control: dict, tool: str | None) -> bool:
    """Whether a correct run fails: under a tool's rule, or, None, under ours."""
    return control["exit_code"] != 0 if tool is None else control["peers"][tool] == "fails"


def _draw_tool(panel, shown: dict[str, list[str]], widest: int) -> None:
    """Tiles, a line or more for each group; the last, of correct ports, a little apart."""
    from matplotlib.patches import Rectangle

    places: dict[str, list[tuple[float, float]]] = {}
    ticks, row = [], 0.0
    for number, (group, words) in enumerate(shown.items()):
        row += 0.5 if number == len(shown) - 1 else 0.0
        ticks.append((row, group))
        for i, word in enumerate(words):
            places.setdefault(word, []).append((i % widest, row + i // widest))
        row += -(-len(words) // widest)
    for word, tiles in places.items():
        colour, mark, mark_colour, _ = TILES[word]
        for x, y in tiles:
            look = {"facecolor": colour, "edgecolor": marks.GREY, "lw": 0.5}
            panel.add_patch(Rectangle((x - 0.43, y - 0.4), 0.86, 0.8, **look))
        xs, ys = zip(*tiles, strict=True)
        panel.scatter(xs, ys, s=14, marker=mark, color=mark_colour, linewidths=1)
    panel.set(xlim=(-0.7, widest - 0.3), ylim=(row - 0.3, -0.7), xticks=[])
    panel.set_yticks([y for y, _ in ticks], [group for _, group in ticks])
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)


def _handle(word: str):
    """A tile in the legend, with its mark."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour, mark, mark_colour, _ = TILES[word]
    line = Line2D([], [], marker=mark, color=mark_colour, ls="none", markersize=5)
    return Patch(facecolor=colour, edgecolor=marks.GREY), line
