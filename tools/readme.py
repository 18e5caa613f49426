"""Write the generated parts of the READMEs and docs/, and pics/, from a check's report.

    make check                                    leaves log/report.json
    python -m tools.red                           leaves log/red.json: wrong ports
    python -m tools.readme                        all of these, from both
    python -m tools.readme --faults FILE          also the catalogue's parts, from `make faults`
    python -m tools.readme --seeds DIR            only docs/results.md's table of seeds, from
                                                  step5_train/check_step5.py --seeds 5 --out DIR

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`, in one page of each language.
Without log/red.json pics/verdicts.png stays as it is.  The red block is a pair's of the gallery.
"""

import json
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from itertools import count
from pathlib import Path

from tools import page_tables, red
from tools.page_tables import cells, share
from tools.twins import markdown_table
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import CURVES
from twincheck.common.pair.metrics import RELATIVE
from twincheck.common.report import marks
from twincheck.common.report.marks import save
from twincheck.common.report.scores import Score, compared, figure
from twincheck.common.report.terminal import COLOURS, guide_word
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import Parser
from twincheck.common.verdict.row import worst
from twincheck.examples.gallery.__main__ import RESULTS
from twincheck.examples.gallery.run import Result, read_result
from twincheck.step5_train.equivalence import GUIDE

REPORT = ROOT / "log" / "report.json"
PICS = ROOT / "pics"
RED_EXAMPLE = "gpt_oss_paddleformers"  # of the gallery: what the READMEs show of a red check


def main(arguments: list[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--faults", type=Path, metavar="FILE")
    parser.add_argument("--seeds", type=Path, metavar="DIR")
    parser.add_argument("--red", type=Path, metavar="FILE", default=red.ROWS)
    options = parser.parse_args(arguments)
    docs = sorted((ROOT / "docs").glob("*.md"))
    english = [ROOT / "README.md", ROOT / "common" / "README.md", *docs]
    try:
        if options.seeds:
            _write(english, {"seeds": seeds_table(options.seeds)})
            return 0
        rows = _rows(options.report)
        guide = json.loads(options.report.read_text()).get("guide", [])
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
    found = cells(rows, guide)
    day = time.strftime("%Y-%m-%d", time.localtime(options.report.stat().st_mtime))
    of_faults = json.loads(options.faults.read_text()) if options.faults else None
    of_red = {"red": red_block(read_result(RESULTS / f"{RED_EXAMPLE}.json"))}
    parts = {
        "results": results_table(rows, guide),
        "accuracies": accuracies(rows),
        "spellings": markdown_table(),
        "files": page_tables.files_table(),
    }
    if of_faults:
        from faults import show

        show.draw(of_faults, PICS / "faults.png")
        parts["faults"] = show.as_markdown(of_faults)
    _write(english, parts | of_red | tables(found, day, of_faults, "en"))
    _write([ROOT / "README_cn.md"], of_red | tables(found, day, of_faults, "cn"))
    return 0


def tables(found: dict, day: str, of_faults: dict | None, language: str) -> dict[str, str]:
    """The parts of a README: the same names and numbers in both languages."""
    parts = {
        "steps": page_tables.steps_table(found, language),
        "acceptance": page_tables.acceptance_table(found, language),
        "measured": page_tables.measured_table(found, day, language),
    }
    if of_faults:
        from faults import show

        guide = sum(pair["guide_passed"] is False for pair in of_faults["hard"])
        parts["detects"] = page_tables.detects(show.rates(of_faults), guide, language)
    return parts


def _write(pages: list[Path], parts: dict[str, str]) -> None:
    for page, text in fill_pages({page: page.read_text() for page in pages}, parts).items():
        page.write_text(text)


def red_block(result: Result) -> str:
    """What step 1 says of a pair of the gallery, as it is published."""
    check = next(c for c in result.as_published.checks if c.block)
    return "\n".join(["```", check.block, "```"])


def _rows(path: Path) -> list[dict]:
    if not path.is_file():
        raise UserError(f"{path}: there is no such report; run `make check` first")
    return json.loads(path.read_text())["rows"]


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
            shares = [share(row) for row in own if share(row)]
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


def scores_of_seeds(logs: Path) -> Iterator[tuple[int, list[Score]]]:
    """Each seed of a result folder of step 5, and its scores at the end on both sides."""
    with ExitStack() as stack:
        paths = [ResultFolder(logs).log("train_full", side) for side in SIDES]
        torch, paddle = (stack.enter_context(read_log(path)) for path in paths)
        names = [key.removeprefix("curve/") for key in torch if key.startswith("curve/")]
        names = [name for name in names if name not in (*CURVES, *RELATIVE)]
        for seed in count():
            prefix = f"seed_{seed}/" if seed else ""
            if prefix + names[0] not in torch:
                return
            both = {n: [float(log[prefix + n]) for log in (torch, paddle)] for n in names}
            yield seed, [compared(name, *sides, GUIDE) for name, sides in both.items()]


def seeds_table(folder: Path) -> str:
    """Every seed of every model's training: of its scores the one that differs most.

    folder  --out of step 5's check, which trained several seeds
    Raises UserError where nothing was trained there.
    """
    lines = ["| model | seed | score | torch | Paddle | difference | guide |"]
    lines.append("|" + "---|" * 7)
    folders = [path.parent for path in sorted(folder.glob("step5_train/*/train_full_torch.npy"))]
    for logs in folders:
        for seed, scores in scores_of_seeds(logs):
            most = max(scores, key=lambda score: score.difference / score.limit)
            values = [figure(most.torch), figure(most.paddle), most.of_torchs(most.difference)]
            told = [logs.name, str(seed), most.name, *values, guide_word(most.passed)]
            lines.append("| " + " | ".join(told) + " |")
    if not folders:
        raise UserError(f"{folder}: step 5 has trained nothing there")
    return "\n".join(lines)


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
    told = f"correct pairs: {len(right):,} tensors"
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
    return [(row["mean_abs"], share(row)) for row in rows if row["max_abs"] and share(row)]


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


if __name__ == "__main__":
    sys.exit(main())
