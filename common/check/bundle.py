"""Put what the steps have left into a bundle: judged anew, as it is, and chosen from."""

import platform
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from common.check.options import CheckOptions
from common.check.result import Result, refuse_unfit
from common.check.steps import Step
from common.logs.guide_pair import bring_pair, has_pair
from common.logs.result_folder import ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar
from common.pair.pairs import Pair, load_pairs
from common.pair.request import RunRequest
from common.report.bundle import Judged, Written, write_bundle
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.verdict.folder import judge_folder

NAME = "bundle.zip"


def bundle_results(
    steps: Sequence[Step], options: CheckOptions, path: Path, report: Path | None = None
) -> Written:
    """Write a bundle of every result that is there of these steps and models.

    options   where the results are, of which models, and what the check was told to let pass
    report    the page of all steps, where there is one
    Raises UserError where there is none, or where logs can show nothing.
    """
    parts = []
    for pair in load_pairs(options.models):
        for step in steps:
            base = (options.out.absolute() / step.name) if options.out else step.folder / "log"
            folder = base / step.other / pair.name
            if not _is_there(step, folder):
                continue
            part = judged(step, pair, folder, options)
            part.reports[f"{step.name}.html"] = base / step.other / "report.html"
            if report is not None:
                part.reports["report.html"] = report
            parts.append(part)
    if not parts:
        where = options.out or "step*/log"
        raise UserError(f"{where}: no results of {', '.join(options.models)}: run a check first")
    return write_bundle(path, parts, about(), options.strict, options.allow)


def _is_there(step: Step, folder: Path) -> bool:
    logs = [ResultFolder(folder).log(step.judged[0], side) for side in SIDES]
    return all(log.is_file() for log in logs)


def judged(step: Step, pair: Pair, folder: Path, options: CheckOptions) -> Judged:
    """A step's result of a model, judged as --compare-only does, with what each row depended on."""
    told = read_sidecar(ResultFolder(folder).log(step.judged[0], "torch")) or Sidecar()
    run = RunRequest(
        cases=tuple(told.cases), probes=tuple(told.probes), no_probe=bool(told.no_probe)
    )
    refuse_unfit(step, pair, folder, run, (), made_now=False)
    if has_pair(step.guide_stem):
        bring_pair(folder, step.guide_stem)
    seen = {stem: [] for stem in step.judged}
    judgements = {}
    for stem in step.judged:
        judgements |= judge_folder(
            folder,
            [stem],
            step.number,
            pair.name,
            strict=options.strict,
            allow_nan="nan" in options.allow,
            observer=lambda *row, stem=stem: seen[stem].append(row),
        )
    result = Result(step, pair.name, allow=tuple(word.upper() for word in options.allow))
    result.take(judgements, folder, pair)
    return Judged(
        number=step.number,
        step=step.name if not step.other else f"{step.name}_{step.other}",
        model=pair.name,
        folder=folder,
        stems=step.judged,
        guide_stem=step.guide_stem,
        threshold=step.guide_threshold,
        rows=result.rows,
        notes=result.notes,
        command=_command(step, pair, told, options),
        guide_passed=result.guide_passed,
        guide_all_passed=result.guide_all_passed,
        seen=seen,
    )


def _command(step: Step, pair: Pair, told: Sidecar, options: CheckOptions) -> str:
    """What to type to run the same check again, from the checkout's root."""
    words = ["python", step.check, "--model", pair.model]
    plain = {"preset": "default", "seed": 0, "weights": "initial", "device": "cpu"}
    for name, usual in plain.items():
        value = getattr(told, name)
        if value not in (None, usual):
            words += [f"--{name}", str(value)]
    for name in told.cases:
        words += ["--case", name]
    for pattern in told.probes:
        words += ["--probe", pattern]
    words += ["--no-probe"] if told.no_probe else []
    words += ["--train"] if told.train and "train" in step.takes else []
    words += ["--strict"] if options.strict else []
    words += [word for name in options.allow for word in ("--allow", name)]
    return shlex.join(words)


def about() -> dict[str, object]:
    """What the manifest says of all: which checkout, and what wrote it."""
    return {
        "commit": commit(),
        "written_by": {"python": platform.python_version(), "numpy": np.__version__},
    }


def commit() -> dict[str, object]:
    """The checkout's commit, and whether files were changed since; "unknown" without git."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if not (ROOT / ".git").exists():
        return {"id": "unknown"}
    found = git("rev-parse", "HEAD")
    if found is None:
        return {"id": "unknown"}
    changed = git("status", "--porcelain", "--untracked-files=no")
    return {"id": found, "changed": None if changed is None else bool(changed)}
