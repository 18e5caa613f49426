"""Write the generated parts of README.md and docs/, and pics/, from a check's report.

    make check                                    leaves log/report.json
    python -m tools.readme                        README.md, docs/ and pics/ from it
    python -m tools.readme --fault FAULTY.json    also the rows of a run with a planted fault
    python -m tools.readme --faults FILE          also the catalogue's parts, from `make faults`

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`, each in one page alone.
"""

import argparse
import json
import platform
import re
import shutil
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from common.report.terminal import COLOURS, guide_word
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.verdict.row import worst
from tools.twins import markdown_table

REPORT = ROOT / "log" / "report.json"
PICS = ROOT / "pics"
OURS = 2  # of the sentences on faults: those on this workbench, before those on other tools


def main(arguments: list[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--fault", type=Path)
    parser.add_argument("--faults", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        rows = _rows(options.report)
        guide = json.loads(options.report.read_text()).get("guide", [])
        faulty = _rows(options.fault) if options.fault else []
        if options.faults and not options.faults.is_file():
            raise UserError(f"{options.faults}: there is no such file; run `make faults` first")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    PICS.mkdir(exist_ok=True)
    draw_verdicts(rows, faulty, PICS / "verdicts.png")
    curves = ROOT / "step5_train" / "log" / "fastformer" / "train_curves.png"
    if curves.is_file():
        shutil.copy(curves, PICS / "train_curves.png")
    parts = {
        "output": f"```\n{options.report.with_suffix('.txt').read_text().rstrip()}\n```",
        "results": results_table(rows, guide),
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


def results_table(rows: list[dict], guide: Sequence[dict] = ()) -> str:
    """Steps × models as Markdown: verdict, rows, largest share of what is allowed, the guide's.

    guide  what the guide's rule says of its own keys, of each step and model
    """
    words = {(one["step"], one["model"]): guide_word(one["guide_passed"]) for one in guide}
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
            all_keys = f"{failed} of {len(guides)} tensors FAIL" if failed else "all tensors passed"
            said = [f"guide: its keys {words.get((step, model), '–')}"]
            said += [all_keys] if step < 5 else []  # whose tensors have another limit
            verdict = worst(r["verdict"] for r in own)
            parts = [f"{verdict}, {len(own)} rows, ≤ {max(shares):.0e} of allowed"]
            cells.append("; ".join([*parts, ", ".join(said)]))
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


def draw_verdicts(rows: list[dict], faulty: list[dict], target: Path) -> None:
    """Each row's float32 difference against its float64 gap, in units of what is allowed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    def points(chosen):
        chosen = [row for row in chosen if row["max_abs"] and _share(row)]
        return [row["mean_abs"] for row in chosen], [_share(row) for row in chosen]

    figure, axes = pyplot.subplots(figsize=(8, 4.2))
    axes.scatter(*points(rows), s=4, c="tab:green", alpha=0.3, label="correct twins, every tensor")
    wrong = [row for row in faulty if COLOURS.get(row["verdict"]) in ("red", "magenta")]
    if wrong:
        label = "LayerNorm epsilon 1e-5 for 1e-12, tensors behind it"
        axes.scatter(*points(wrong), s=8, c="tab:red", label=label)
    axes.axhline(1.0, color="black", lw=1)
    axes.axvline(1e-6, color="grey", lw=1, ls="--")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="float32: mean |torch − paddle|      (dashed: the guide's limit, 1e-6)",
        ylabel="float64 gap / allowed",
        title="A bug is above the line, rounding below it, wherever the guide's limit is",
    )
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
