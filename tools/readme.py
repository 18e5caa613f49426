"""Write the generated parts of README.md and docs/, and pics/, from a check's report.

    make check                                    leaves log/report.json
    python -m tools.red                           leaves log/red.json: checks of wrong ports
    python -m tools.readme                        README.md, docs/ and pics/ from both
    python -m tools.readme --faults FILE          also the catalogue's parts, from `make faults`

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`, each in one page alone.
Without log/red.json the picture that needs it, pics/verdicts.png, stays as it is.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import argparse
import json
import platform
import re
import shutil
import time
from importlib.metadata import version

from common.report import marks
from common.report.marks import save
from common.report.terminal import COLOURS
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.verdict.row import worst
from tools import red
from tools.twins import markdown_table

REPORT = ROOT / "log" / "report.json"
PICS = ROOT / "pics"
OURS = 2  # of the sentences on faults: those on this workbench, before those on other tools


def main(arguments: list[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--red", type=Path, metavar="FILE", default=red.ROWS)
    parser.add_argument("--faults", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        rows = _rows(options.report)
        if options.faults and not options.faults.is_file():
            raise UserError(f"{options.faults}: there is no such file; run `make faults` first")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    PICS.mkdir(exist_ok=True)
    if options.red.is_file():
        wrong = json.loads(options.red.read_text())
        draw_verdicts(rows, wrong, PICS / "verdicts.png")
    else:
        print(
            f"{options.red} is missing: pics/verdicts.png stays as it is. Run python -m tools.red"
        )
    curves = ROOT / "step5_train" / "log" / "fastformer" / "train_curves.png"
    if curves.is_file():
        shutil.copy(curves, PICS / "train_curves.png")
    parts = {
        "output": f"```\n{options.report.with_suffix('.txt').read_text().rstrip()}\n```",
        "results": results_table(rows),
        "accuracies": accuracies(rows),
        "spellings": markdown_table(),
    }
    if options.faults:
        from faults import show

        found = json.loads(options.faults.read_text())
        show.draw(found, PICS / "faults.png")
        parts["faults"] = show.as_markdown(found)
        parts["detects"] = "\n".join(f"* {text}" for text in show.sentences(found)[:OURS])
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    block = options.red.with_suffix(".txt")
    if block.is_file() and any("<!-- generated: red -->" in page.read_text() for page in pages):
        parts["red"] = f"```\n{block.read_text().rstrip()}\n```"
    for page, text in fill_pages({page: page.read_text() for page in pages}, parts).items():
        page.write_text(text)
    return 0


def _rows(path: Path) -> list[dict]:
    if not path.is_file():
        raise UserError(f"{path}: there is no such report; run `make check` first")
    return json.loads(path.read_text())["rows"]


def _share(row: dict) -> float:
    """How much of what a row is allowed it takes; 0 where that says nothing."""
    gap, allowed = row.get("gap"), row.get("allowed")
    return gap / allowed if gap and allowed else 0.0


def fill(text: str, parts: dict[str, str]) -> str:
    """The text with each generated part replaced; a part without its one place is an error."""
    return fill_pages({"": text}, parts)[""]


def fill_pages(texts: dict, parts: dict[str, str]) -> dict:
    """Page -> its text, each part in the one page that has a place for it."""
    texts = dict(texts)
    for name, content in parts.items():
        pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
        places = 0
        for page, text in texts.items():
            texts[page], count = re.subn(
                pattern, lambda m, c=content: f"{m[1]}{c.strip()}\n{m[2]}", text, flags=re.S
            )
            places += count
        if places != 1:
            raise ValueError(f"there are {places} places for the generated part {name}, not 1")
    return texts


def results_table(rows: list[dict]) -> str:
    """Steps × models as Markdown: verdict, rows, largest share of what is allowed, the guide's."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = [
        "| step | " + " | ".join(models) + " |",
        "|---|" + "---|" * len(models),
    ]
    for step in sorted({row["step"] for row in rows}):
        cells = []
        for model in models:
            own = [r for r in rows if r["step"] == step and r["model"] == model]
            shares = [_share(row) for row in own if _share(row)]
            guides = [r["guide_passed"] for r in own if r.get("guide_passed") is not None]
            failed = sum(not passed for passed in guides)
            guide = f"guide: {failed} of {len(guides)} rows FAIL" if failed else "guide: passed"
            if step == 5:
                guide = "guide: see `check_step5.py`"
            verdict = worst(r["verdict"] for r in own)
            cells.append(f"{verdict}, {len(own)} rows, ≤ {max(shares):.0e} of allowed; {guide}")
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("torch", "paddlepaddle", "reprod_log", "numpy")
    )
    lines += [
        "",
        f"{versions}; Python {platform.python_version()}; CPU ({platform.machine()}); "
        f"{time.strftime('%Y-%m-%d')}.",
    ]
    return "\n".join(lines)


def accuracies(rows: list[dict]) -> str:
    """What step 5 says of the final predictions, a line a model."""
    final = [row for row in rows if row["key"] == "train/final_predictions"]
    return "\n".join(f"* `{row['model']}`: {row.get('note', '')}" for row in final)


END = 1e-14  # of both axes: what is less is drawn at the edge


def draw_verdicts(rows: list[dict], wrong: dict[str, dict], target: Path) -> None:
    """Write pics/verdicts.png: verdicts_figure's picture."""
    save(verdicts_figure(rows, wrong), target)


def verdicts_figure(rows: list[dict], wrong: dict[str, dict]):
    """Each row's float32 difference against its float64 gap, in units of what is allowed.

    `wrong`: of each wrong port what is wrong with it (`what`) and its `rows`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.6))
    axes = figure.subplots()
    right = _points(rows)
    inside = [(x, y) for x, y in right if min(x, y) >= END]
    beyond = [(max(x, END), max(y, END)) for x, y in right if min(x, y) < END]
    told = f"correct twins: {len(right):,} tensors"
    axes.scatter(*_columns(inside), s=5, alpha=0.35, linewidths=0, label=told, **marks.RIGHT)
    if beyond:
        told = f"of these {len(beyond):,} below 1e-14, drawn at the edge"
        edge = marks.RIGHT | {"marker": "<", "clip_on": False}
        axes.scatter(*_columns(beyond), s=20, alpha=0.5, linewidths=0, label=told, **edge)
    for mark, one in zip(marks.WRONG, wrong.values(), strict=False):
        faulty = [row for row in one["rows"] if COLOURS.get(row["verdict"]) in ("red", "magenta")]
        label = f"wrong port: {one['what']}"
        axes.scatter(*_columns(_points(faulty)), s=22, linewidths=0.9, label=label, **mark)
    axes.axhline(1.0, color=marks.BLACK, lw=1.2)
    axes.axvline(1e-6, color=marks.GREY, lw=1.2, ls="--")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="float32: mean |torch − Paddle|      (dashed: the guide's limit, 1e-6)",
        ylabel="float64 gap / allowed      (line: the limit here)",
        title="A bug is above the line, rounding below it, wherever the guide's limit is",
    )
    axes.set_xlim(left=END)
    axes.set_ylim(bottom=END)
    place = {"fontsize": 8, "style": "italic", "transform": axes.transAxes}
    axes.text(0.01, 0.985, "bugs that the guide's rule passes", va="top", **place)
    axes.text(0.99, 0.985, "bugs that it fails", ha="right", va="top", **place)
    axes.text(0.99, 0.015, "rounding that it fails", ha="right", va="bottom", **place)
    legend = {"fontsize": 8, "frameon": False, "ncols": 2, "markerscale": 1.6}
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), **legend)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    return figure


def _points(rows: list[dict]) -> list[tuple[float, float]]:
    """(mean difference in float32, share of what is allowed) of each row that has both."""
    return [(row["mean_abs"], _share(row)) for row in rows if row["max_abs"] and _share(row)]


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


if __name__ == "__main__":
    sys.exit(main())
