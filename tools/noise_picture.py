"""How float32's errors lie beside the measured noise: pics/noise.png, and docs/how-judged.md.

    python -m tools.noise_picture             measures (half an hour), and writes docs/noise.json
    python -m tools.noise_picture --stored    from docs/noise.json: runs nothing

Checks of steps 1 and 4 have the noise of every tensor measured, not only of those in doubt: correct
pairs (make check's, faults/hard.py's, faults/users'), of which each row counts that agrees, and
planted faults, of which the first counts that is off.  It is a tensor's root mean square.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; in the checkout of the check that it runs
    scripts = sys.argv[2:3] * (sys.argv[1:2] == ["--measure"])
    sys.path[:1] = [str(Path(name).resolve().parent.parent) for name in (*scripts, __file__)]
    from twincheck.common.system.start import begin

    begin("matplotlib")

import argparse
import json
import os
import runpy
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import date
from importlib.metadata import version

import numpy as np

from faults import hard
from faults.catalogue import FAULTS
from faults.checkout import CHECKS
from faults.fault import Fault
from faults.users import run as users
from faults.warm import Interpreters
from faults.worker import Check, Worker, _Planted
from tools.readme import fill
from twincheck.common.check import runner
from twincheck.common.logs.key import Key
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.task import Noise
from twincheck.common.report import marks
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.files import write_text
from twincheck.common.verdict.measures import rms
from twincheck.common.verdict.tolerances import tolerance
from twincheck.extras.shared.jobs import Place

STORED, PICTURE = ROOT / "docs" / "noise.json", ROOT / "pics" / "noise.png"
PAGE = ROOT / "docs" / "how-judged.md"
MEASURE = "--measure"  # SCRIPT …: this file stands for the Python that runs a check
FOUND, GROUP, TWINS = "NOISE_FOUND", "NOISE_GROUP", "NOISE_TWINS"  # variables that tell it more
STEPS = ("1", "4")
LOGS = ("ref32", "cand32", "ref64", "cand64", "noise")
COUNTED = {"right": ("IDENTICAL", "ROUNDING", "CONSTANT"), "planted": ("PRECISION", "DIVERGED")}
ELSEWHERE = ("shaped otherwise", "the same numbers")  # in notes of rows that other keys tell of
EVERY = 5  # one in so many of the catalogue's faults, and of users' pairs in step 4
EDGES = np.linspace(-4, 16, 81)  # of the histograms, log10; what lies beyond is in the outermost
NARROW = """

import paddle


def _narrow(layer):
    forward = layer.forward

    def narrowed(self, x):
        y = forward(self, x)
        return y.astype("{0}").astype(y.dtype) if y.dtype == paddle.float32 else y

    layer.forward = narrowed


_narrow(paddle.nn.Linear)
"""
SERIES = {  # name -> panel, words, how its line is drawn
    "torch": (0, "error: torch, correct pairs", marks.TORCH | {"ls": "-"}),
    "paddle": (0, "error: Paddle, correct pairs", marks.PADDLE | {"ls": "--"}),
    "steps": (0, "error: Paddle, optimizers' steps", {"c": marks.SKY, "ls": "-.", "marker": "v"}),
    "PRECISION": (0, "error: Paddle, planted casts", marks.WRONG[0] | {"ls": ":"}),
    "gap": (1, "gap: correct pairs", {"c": marks.GREEN, "ls": "-", "marker": "."}),
    "CONSTANT": (1, "gap: constants kept in float32", {"c": marks.GREY, "ls": "", "marker": "^"}),
    "DIVERGED": (1, "gap: planted faults", marks.WRONG[1] | {"ls": ":"}),
}
PANELS = (
    ("float32 error / measured noise of float32", "precision"),
    ("float64 gap / measured noise of float64", "measured_gap"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stored", action="store_true", help="read docs/noise.json; run nothing")
    if not parser.parse_args(arguments).stored:
        write_text(STORED, json.dumps(summary(measured()), separators=(",", ":")) + "\n")
    stored = json.loads(STORED.read_text())
    marks.save(noise_figure(stored), PICTURE)
    write_text(PAGE, fill(PAGE.read_text(), {"noise": table(stored)}))
    return 0


# ---- one check ----------------------------------------------------------------------------------


def check(script: str, *arguments: str) -> None:
    """Run a check as it is, but for a file that it leaves of what was measured of each model."""
    judge = runner.judge_model

    def judged(step, pair, folder, options, workers=None, guide=None):
        result = judge(step, pair, folder, options, workers, guide)
        group = os.environ.get(GROUP, "")
        rows = {
            row.key: row.verdict
            for row in result.rows
            if row.verdict in COUNTED.get(group, ())
            and (group == "right" or row.origin or row.verdict == "PRECISION")
            and not any(words in row.note for words in ELSEWHERE)
        }
        if workers and rows:
            keys = [Key.parse(key, result.cases) for key in rows]
            passes = {(key.case_name, key.setup) for key in keys}
            for _ in ("the first run of each size", "the others"):
                failed = workers.look_closer(Noise(), pair, passes)
            told = {"step": step.number, "model": pair.name, "group": group, "failed": failed}
            told |= {"exit_code": result.exit_code}
            told |= {"rows": list(numbers(folder, step.judged[0], rows))}
            with tempfile.NamedTemporaryFile("w", dir=os.environ[FOUND], delete=False) as file:
                json.dump(told, file)
        return result

    runner.judge_model, sys.executable = judged, os.environ[TWINS]
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def numbers(folder: Path, stem: str, rows: dict[str, str]) -> Iterator[list]:
    """Key, verdict, and of the tensor: torch's error, Paddle's, the gap, and both noises."""
    paths = ResultFolder(folder).judged_logs(stem)
    with ExitStack() as stack:
        logs = [stack.enter_context(read_log(paths[name])) for name in LOGS if name in paths]
        for key, verdict in rows.items():
            if len(logs) == len(LOGS) and all(key in log for log in logs):
                t32, p32, t64, p64, noise = (log[key] for log in logs)
                wide = [array.astype(float).ravel() for array in (t32, p32, t64, p64)]
                if all((np.abs(array) < 1e38).all() for array in wide):  # no mask's lowest number
                    off = (wide[0] - wide[2], wide[1] - wide[3], wide[2] - wide[3])
                    yield [key, verdict, *map(rms, off), *map(float, noise[:, 0])]


# ---- all checks ---------------------------------------------------------------------------------


def measured() -> list[dict]:
    """Run them one after another; what each of their models has left."""

    def run(step: str, *words: str) -> None:
        command = [python, str(ROOT / CHECKS[int(step)]), *words, "--no-report"]
        subprocess.run([*command, "--out", str(scratch / "out")], stdout=subprocess.DEVNULL)

    os.environ["OMP_NUM_THREADS"] = "1"
    with Interpreters() as warm, tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        python = _stand_in(scratch, warm.real)
        os.environ |= {FOUND: str(scratch / FOUND), TWINS: warm.python, GROUP: "right"}
        for step in STEPS:
            run(step)  # make check's
        plain = [one for one in hard.RUNS if one.step == 1 and _float32(1, one.options)]
        hard.run(Place(), print, plain, python)
        pairs = [one for one in users.runs_of(users.PAIRS) if not one.train]
        pairs = [r for r in pairs if r.step == 1] + [r for r in pairs if r.step == 4][::EVERY]
        users.run(Place(), print, pairs, python)

        os.environ[GROUP] = "planted"
        for dtype in ("bfloat16", "float16"):
            folders = [str(folder) for folder in _narrowed(scratch / dtype, dtype)]
            for at in range(0, len(folders), 10):
                run("1", *(word for one in folders[at : at + 10] for word in ("--model", one)))
        worker = Worker(scratch / "worker", python)
        worker.checkout.interpreter = (python,)
        for fault in chosen():
            with _Planted(worker.checkout, fault):
                worker.run(Check.of(fault))
            print(f"planted: {fault.id}", flush=True)
        worker.close()
        return [json.loads(path.read_text()) for path in sorted((scratch / FOUND).iterdir())]


def chosen() -> list[Fault]:
    """One in EVERY fault of the catalogue that changes a float32 run of STEPS."""
    plain = [
        fault
        for fault in FAULTS
        if _float32(fault.step, fault.arguments)
        and not (fault.refused or fault.after or fault.other or fault.check)
    ]
    return [fault for i, fault in enumerate(plain) if i % EVERY == 0 or "float16" in fault.new]


def _float32(step: int, options: Sequence[str]) -> bool:
    return str(step) in STEPS and not {"--dtype", "--autocast"} & set(options)


def _narrowed(folder: Path, dtype: str) -> Iterator[Path]:
    """Copies of users' pairs in which Paddle's linear layers round what they return."""
    for pair in users.PAIRS:
        model = users.FOLDER / pair.name / "paddle_model.py"
        if "nn.Linear(" in model.read_text() and 1 in pair.steps:
            copy = shutil.copytree(model.parent, folder / pair.name)
            with open(copy / model.name, "a") as file:
                file.write(NARROW.format(dtype))
            yield copy


def _stand_in(folder: Path, real: str) -> str:
    """An executable that runs a check by this file."""
    (folder / FOUND).mkdir()
    python, words = folder / "python", [real, "-W", "ignore", str(Path(__file__).resolve())]
    shift = '[ "$1" = -W ] && shift 2'
    python.write_text(f'#!/bin/sh\n{shift}\nexec {shlex.join([*words, MEASURE])} "$@"\n')
    python.chmod(0o755)
    return str(python)


# ---- what comes of it ---------------------------------------------------------------------------


def summary(found: Sequence[dict]) -> dict:
    """Histograms, quantiles and the largest ratios of each of SERIES, and what was counted."""
    ratios: dict[str, list] = {name: [] for name in SERIES}
    counts = {"right": 0, "planted": 0, "still": 0, "unknown": 0, "origins_still": 0}
    for one in found:
        right = one["group"] == "right"
        if right == bool(one["exit_code"]):
            raise RuntimeError(f"step {one['step']}, {one['model']}: of the wrong group")
        counts[one["group"]] += 1
        for key, verdict, torch, paddle, gap, noise, small in one["rows"][: None if right else 1]:
            at = f"step {one['step']}, {one['model']}, {key}"
            if not noise or not small:
                counts["still" if right else "origins_still"] += 1  # no rounding moves it
            elif small > tolerance("saturated") * noise:
                counts["unknown"] += 1  # nor is it rounding that does
            elif right:
                side = "steps" if Key.parse(key, ()).is_step else "paddle"
                ratios["torch"].append((torch / noise, at))
                ratios[side].append((paddle / noise, at))
                ratios["CONSTANT" if verdict == "CONSTANT" else "gap"].append((gap / small, at))
            elif gap / small > paddle / noise:
                ratios["DIVERGED"].append((gap / small, at))
            else:
                ratios["PRECISION"].append((paddle / noise, at))
    told = {"date": f"{date.today()}", "torch": version("torch"), "cpu": _cpu(), "counts": counts}
    told["paddlepaddle"] = version("paddlepaddle")
    return told | {"series": {name: _series(values) for name, values in ratios.items()}}


def _series(values: list[tuple[float, str]]) -> dict:
    values.sort(reverse=True)
    all_of_it = np.array([number for number, _ in values] or [0.0])
    logs = np.log10(np.clip(all_of_it, 10 ** EDGES[0], 10 ** EDGES[-1]))
    return {
        "count": len(values),
        "quantiles": [
            float(f"{np.quantile(all_of_it, part):.3g}") for part in (0, 0.5, 0.99, 0.999, 1)
        ],
        "largest": [(float(f"{number:.3g}"), at) for number, at in values[:5]],
        "histogram": np.histogram(logs, EDGES)[0].tolist(),
    }


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("model name"))


def table(stored: dict) -> str:
    """The page's table, and what it was measured on."""
    of, lines = stored["counts"], []
    for name, (_, what, _) in SERIES.items():
        series = stored["series"][name]
        cells = " | ".join(f"{number:.2g}" for number in series["quantiles"])
        lines.append(f"| {what} | {series['count']:,} | {cells} |")
    return "\n".join(
        [
            f"Measured on {stored['date']} (torch {stored['torch']}, paddlepaddle "
            f"{stored['paddlepaddle']}, {stored['cpu']}): {of['right']} correct models' checks of "
            f"steps 1 and 4, and {of['planted']} with a planted fault.",
            "",
            "| times the noise | tensors | smallest | median | 99 % | 99.9 % | largest |",
            "|---|---|---|---|---|---|---|",
            *lines,
        ]
    )


def noise_figure(stored: dict):
    """A panel for float32's errors, and one for the gaps: how many tensors lie how far."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.4))
    panels = figure.subplots(1, 2, sharey=True)
    middles = 10 ** ((EDGES[:-1] + EDGES[1:]) / 2)
    for name, (panel, label, look) in SERIES.items():
        counts = np.array(stored["series"][name]["histogram"], float)
        counts[counts == 0] = np.nan
        panels[panel].plot(middles, counts, label=label, ms=4, **look)
    for panel, (label, limit) in zip(panels, PANELS, strict=True):
        panel.set(xscale="log", yscale="log", ylim=(0.7, None), xlabel=label)
        panel.axvline(tolerance(limit), color=marks.BLACK, lw=0.8)
        text = {"transform": panel.get_xaxis_transform(), "va": "top", "fontsize": 9}
        panel.text(tolerance(limit), 0.98, f" allowed: {tolerance(limit):g}", **text)
    panels[0].set_ylabel("tensors")
    legend = {"loc": "upper center", "ncols": 3, "frameon": False, "fontsize": 9}
    entries = [line for panel in panels for line in panel.get_legend_handles_labels()[0]]
    figure.legend(handles=entries, **legend)
    figure.tight_layout(rect=(0, 0, 1, 0.86))
    return figure


if __name__ == "__main__":
    sys.exit(check(*sys.argv[2:]) if sys.argv[1:2] == [MEASURE] else main())
