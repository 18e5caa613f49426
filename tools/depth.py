"""Error against depth: the Reformer's intermediates in the shape of enwik8, layer by layer.

    python -m tools.depth                    2, 12 layers; local, LSH; random, trained-like
    python -m tools.depth --weights PATH     12 layers as enwik8 has them, with weights of your own

Runs step 1 for each, with every named tensor of every layer, and leaves log/depth/NAME.csv (every
tensor: difference, each side's own distance to float64, the float64 gap, verdict),
pics/depth.png, and the generated table in docs/depth.md.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from common.check.guard import guarded
from common.logs.reader import read_log
from common.logs.result_folder import ResultFolder
from common.pair.pairs import TRAINED_LIKE
from common.report import terminal as report
from common.show import LOGS
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.files import whole
from common.verdict.row import exit_code
from tools.readme import PICS, fill

PAGE = ROOT / "docs" / "depth.md"
TABLES = ROOT / "log" / "depth"
PRESETS = ("enwik8-local-2", "enwik8-lsh-2", "enwik8-local-12", "enwik8-lsh-12")
WEIGHTS = (None, TRAINED_LIKE)
COLUMNS = ("key", "verdict", "mean", "max", "torch", "paddle", "gap", "size")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status: 1 where a verdict is not green."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, metavar="PATH", help="a checkpoint")
    parser.add_argument("--preset", action="append", help="instead of the four")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    presets = options.preset or (["enwik8"] if options.weights else PRESETS)
    weights = [str(options.weights)] if options.weights else WEIGHTS
    of_the_page = not (options.weights or options.preset)
    runs = [(preset, word) for preset in presets for word in weights]
    found: dict[str, list[dict]] = {}
    with report.progress() as on_progress:
        for preset, word in runs:
            name = f"{preset}, {_words(word)}"
            on_progress(name)
            found[name] = measured(preset, word)
            _write_table(TABLES / f"{name.replace(', ', '-').replace(' ', '-')}.csv", found[name])
    print(f"every tensor: {TABLES}")
    draw(found, (PICS if of_the_page else TABLES) / "depth.png")
    table = as_markdown(found)
    print(table)
    if of_the_page:
        text = fill(PAGE.read_text(), {"depth": table})
        with whole(PAGE) as temporary:
            temporary.write_text(text)
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
        command += ["--model", "reformer", "--preset", preset, "--no-report"]
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
    and rms: of each side's float32 from its own float64, of the two float64's gap, and the size."""
    paths = [ResultFolder(folder).log("forward_all", *log) for log in LOGS.values()]
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


def _write_table(path: Path, rows: Sequence[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


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
    """A panel a run: the difference and each side's own error, tensor after tensor."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 2 if len(found) > 1 else 1
    rows = -(-len(found) // columns)
    figure, panels = pyplot.subplots(
        rows, columns, figsize=(5.5 * columns, 2.6 * rows), squeeze=False, sharey=True
    )
    for panel, (name, tensors) in zip(panels.flat, found.items(), strict=True):
        for column, label, colour in (
            ("torch", "torch to its own float64 (rms)", "tab:orange"),
            ("paddle", "Paddle to its own float64 (rms)", "tab:blue"),
            ("mean", "mean |torch − Paddle|", "black"),
            ("gap", "gap between the float64 runs (rms)", "tab:green"),
        ):
            values = [row[column] or np.nan for row in tensors]
            panel.plot(values, label=label, color=colour, lw=0.8)
        panel.axhline(1e-6, color="grey", lw=0.8, ls="--")
        panel.set(yscale="log", title=name, xlabel="tensors in the order of the forward pass")
        panel.title.set_fontsize(9)
        panel.grid(alpha=0.3)
    panels[0, 0].legend(fontsize=6, loc="lower right")
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
