"""Error against depth: the Reformer's intermediates in the shape of enwik8, layer by layer.

    python -m tools.depth                    2, 12 layers; local, LSH; random, trained-like
    python -m tools.depth --weights PATH     12 layers as enwik8 has them, with weights of your own
    python -m tools.depth --stored           from the tables of an earlier run: runs nothing
    python -m tools.depth --write            and puts the first's picture and table into the pages

Runs step 1 for each, with every named tensor of every layer, and leaves log/depth/NAME.csv (every
tensor: difference, each side's own distance to float64, the float64 gap, verdict) and
log/depth/depth.png.  --write, alone or beside --stored, writes pics/depth.png and the generated
table in docs/how-judged.md too; nothing else does.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich")

import argparse
import csv
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np

from tools.readme import PICS, fill
from twincheck.common.check.guard import guarded
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import TRAINED_LIKE
from twincheck.common.report import marks
from twincheck.common.report import terminal as report
from twincheck.common.show import LOGS
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole, write_text
from twincheck.common.verdict.row import exit_code

PAGE = ROOT / "docs" / "how-judged.md"
TABLES = ROOT / "log" / "depth"
PICTURE = "depth.png"
PRESETS = ("enwik8-local-2", "enwik8-lsh-2", "enwik8-local-12", "enwik8-lsh-12")
WEIGHTS = (None, TRAINED_LIKE)
COLUMNS = ("key", "verdict", "mean", "max", "torch", "paddle", "gap", "size")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status: 1 where a verdict is not green."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, metavar="PATH", help="a checkpoint")
    parser.add_argument("--preset", action="append", help="instead of the four: --preset text")
    parser.add_argument("--stored", action="store_true", help="read log/depth; run nothing")
    parser.add_argument(
        "--write", action="store_true", help="also write pics/depth.png and docs/how-judged.md"
    )
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    if options.write and (options.weights or options.preset):
        raise UserError("--write is for the page's four presets: leave out --weights and --preset")
    presets = options.preset or (["enwik8"] if options.weights else PRESETS)
    weights = [str(options.weights)] if options.weights else WEIGHTS
    runs = {f"{preset}, {_words(word)}": (preset, word) for preset in presets for word in weights}
    if options.stored:
        found = {name: _read_table(_table(name)) for name in runs}
    else:
        found = {}
        with report.progress() as on_progress:
            for name, run in runs.items():
                on_progress(name)
                found[name] = measured(*run)
                _write_table(_table(name), found[name])
        print(f"every tensor: {TABLES}")
    table = as_markdown(found)
    print(table)
    draw(found, TABLES / PICTURE)
    print(f"picture: {TABLES / PICTURE}")
    if options.write:
        text = fill(PAGE.read_text(), {"depth": table})
        draw(found, PICS / PICTURE)
        write_text(PAGE, text)
        print(f"written: {PICS / PICTURE}, {PAGE}")
    return max(exit_code([row["verdict"] for row in rows]) for rows in found.values())


def _words(word: str | None) -> str:
    if word is None:
        return "random weights"
    return "trained-like weights" if word == TRAINED_LIKE else Path(word).stem


def measured(preset: str, weights: str | None) -> list[dict]:
    """Run step 1 of a preset; a row of COLUMNS for every float tensor, in the log's order.

    Raises UserError where the check could not compare.
    """
    with tempfile.TemporaryDirectory(prefix="depth-") as name:
        folder, rows = Path(name), Path(name) / "rows.json"
        command = [sys.executable, str(ROOT / "step1_forward" / "check_step1.py")]
        command += ["--model", "reformer", "--preset", preset, "--no-report", "--keep", "all"]
        command += ["--out", str(folder), "--json", str(rows)]
        command += ["--weights", weights] if weights else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 2:
            raise UserError(done.stderr.strip().removeprefix("error: "))
        verdicts = {row["key"]: row["verdict"] for row in json.loads(rows.read_text())["rows"]}
        logs = folder / "step1_forward" / "reformer"
        return [row | {"verdict": verdicts[row["key"]]} for row in distances(logs)]


def distances(folder: Path) -> Iterator[dict]:
    """For every float tensor of step 1's four logs: mean and max of |torch - paddle| in float32,
    and rms: of each side's float32 from its own float64, of the two float64's gap, and the size.

    Raises UserError for logs that hold no more than a sample of some tensors.
    """
    paths = [ResultFolder(folder).log("forward_all", *log) for log in LOGS.values()]
    for path in paths:
        if sidecar_of(path).sums:
            raise UserError(f"{path}: a sample of large tensors; run the check with --keep all")
    with ExitStack() as stack:
        logs = [stack.enter_context(read_log(path)) for path in paths]
        for key in logs[0]:
            if logs[0].dtype(key).kind != "f" or not all(key in log for log in logs):
                continue
            torch, paddle, torch64, paddle64 = (log[key] for log in logs)
            apart = np.abs(torch - paddle)
            yield {
                "key": key,
                "mean": float(apart.mean()),
                "max": float(apart.max()),
                "torch": _rms(torch - torch64),
                "paddle": _rms(paddle - paddle64),
                "gap": _rms(torch64 - paddle64),
                "size": _rms(torch64),
            }


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def _table(name: str) -> Path:
    return TABLES / f"{name.replace(', ', '-').replace(' ', '-')}.csv"


def _write_table(path: Path, rows: Sequence[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def _read_table(path: Path) -> list[dict]:
    """What _write_table wrote; raises UserError where it is missing or another kind of table."""
    try:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        words = ("key", "verdict")
        return [{c: row[c] if c in words else float(row[c]) for c in COLUMNS} for row in rows]
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such table; leave out --stored to measure") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{path}: not a table of this program ({reason})") from None


def as_markdown(found: dict[str, list[dict]]) -> str:
    """A line a run: what is left of the difference in the last layer's hidden states."""
    lines = [
        "| run | tensors | verdicts | hidden states of the last layer: mean | max | "
        "torch to its float64, rms | Paddle to its own | gap in float64 | size |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        last = [row for row in rows if row["key"].endswith(".hidden_states")][-1]
        counts = {v: sum(row["verdict"] == v for row in rows) for v in sorted(_verdicts(rows))}
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        numbers = (last[column] for column in ("mean", "max", "torch", "paddle", "gap", "size"))
        cells = " | ".join(f"{number:.1e}" for number in numbers)
        lines.append(f"| {name} | {len(rows)} | {told} | {cells} |")
    return "\n".join(lines)


def _verdicts(rows: Sequence[dict]) -> set[str]:
    return {row["verdict"] for row in rows}


def draw(found: dict[str, list[dict]], target: Path) -> None:
    """Write depth_figure's picture."""
    marks.save(depth_figure(found), target)


def depth_figure(found: dict[str, list[dict]]):
    """A panel a run; in each layer a lane for each series, so that none lies on another.

    The panels of models of as many layers stand below each other.  Small marks are a layer's
    tensors in their order, a large one is what it hands on; what is exactly 0 cannot be shown.
    """
    from matplotlib.figure import Figure

    columns: dict[int, list[str]] = {}
    for name, tensors in found.items():
        columns.setdefault(len(_layers(tensors)), []).append(name)
    depths = sorted(columns)
    rows = max(map(len, columns.values()))
    figure = Figure(figsize=(max(9.0, 1.0 + 0.72 * sum(depths)), 1.1 + 2.5 * rows))
    panels = figure.subplots(
        rows, len(depths), squeeze=False, sharey=True, width_ratios=[n + 0.8 for n in depths]
    )
    for column, depth in enumerate(depths):
        for row, panel in enumerate(panels[:, column]):
            if row < len(columns[depth]):
                _draw_run(panel, columns[depth][row], found[columns[depth][row]])
            else:
                panel.set_axis_off()
    for panel in panels[:, 0]:
        panel.set_ylabel("error, in the tensor's unit")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    told = "large marks: the hidden states that a layer hands on; small marks: its other tensors"
    legend = {"loc": "upper center", "ncols": 3, "frameon": False, "fontsize": 9}
    figure.legend(handles, labels, title=told, title_fontsize=9, **legend)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.72 / figure.get_figheight()))
    return figure


# Column of a row, its place in a layer from 0 to 1, its label and its mark.  The gap of the float64
# runs is far below the rest and may take a layer's whole width.
SERIES = (
    ("torch", (0.03, 0.27), "torch to its own float64, rms", marks.TORCH),
    ("paddle", (0.36, 0.60), "Paddle to its own float64, rms", marks.PADDLE),
    ("mean", (0.69, 0.93), "torch to Paddle in float32, mean", marks.DIFFERENCE),
    ("gap", (0.03, 0.93), "gap between the float64 runs, rms", marks.GAP),
)
HANDED_ON = ".hidden_states"
GUIDES_LIMIT = 1e-6


def _draw_run(panel, name: str, tensors: Sequence[dict]) -> None:
    layers = _layers(tensors)
    for column, (left, right), label, mark in SERIES:
        places, values, large = [], [], []
        for number, layer in layers.items():
            last = max(i for i, row in enumerate(layer) if row["key"].endswith(HANDED_ON))
            large.append(len(places) + last)
            places += (number + np.linspace(left, right, len(layer))).tolist()
            values += [row[column] or np.nan for row in layer]
        cross = mark["marker"] == "x"  # has no edge
        thin = {"linewidths": 0.6} if cross else {"edgecolors": "none"}
        bold = {"linewidths": 1.6} if cross else {"edgecolors": marks.BLACK}
        panel.scatter(places, values, s=5, alpha=0.55, zorder=2, **mark, **thin)
        places, values = ([numbers[i] for i in large] for numbers in (places, values))
        panel.scatter(places, values, s=34, zorder=3, label=label, **mark, **bold)
    line = {"color": marks.GREY, "lw": 1, "ls": "--", "zorder": 1}
    panel.axhline(GUIDES_LIMIT, label="1e-6: the guide's limit", **line)
    for number in range(1, len(layers)):
        panel.axvline(number, color=marks.GREY, lw=0.3, zorder=0)
    panel.set(yscale="log", xlim=(0, len(layers)), xlabel="layer")
    panel.set_title(name.replace(", ", "\n"), fontsize=9)
    panel.set_xticks([number + 0.5 for number in layers], [str(number) for number in layers])
    panel.tick_params(axis="x", length=0)
    panel.grid(axis="y", alpha=0.3)


def _layers(tensors: Sequence[dict]) -> dict[int, list[dict]]:
    """Number of a layer -> its tensors; what stands before the first and behind the last is left
    out, and so is a layer without hidden states."""
    layers: dict[int, list[dict]] = {}
    for row in tensors:
        number = re.search(r"\.layers\.(\d+)\.", row["key"])
        if number:
            layers.setdefault(int(number[1]), []).append(row)
    return {
        n: rows for n, rows in layers.items() if any(r["key"].endswith(HANDED_ON) for r in rows)
    }


if __name__ == "__main__":
    sys.exit(main())
