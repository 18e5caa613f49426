"""Put what the steps have left into a bundle: a check's own results, or those of an earlier one."""

import platform
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.bundles.write import Part, Written, write_bundle
from twincheck.common.check.options import CheckOptions
from twincheck.common.check.record import asked_of, repeated, request_of
from twincheck.common.check.result import Result, shown
from twincheck.common.check.runner import base_folder, judge_model
from twincheck.common.check.steps import Step
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import load_pairs
from twincheck.common.report import html_page
from twincheck.common.report import terminal as report
from twincheck.common.report.commands import program
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES

NAME = "bundle.zip"


def judge_again(
    steps: Sequence[Step], options: CheckOptions, on_progress: Callable | None = None
) -> list[Result]:
    """The results that are there of these steps and models, judged as --compare-only does.

    Raises UserError where there is none, or where logs can show nothing.
    """
    results = []
    for pair in load_pairs(options.models):
        for step in steps:
            folder = base_folder(step, options) / pair.name
            logs = [ResultFolder(folder).log(step.judged[0], side) for side in SIDES]
            if not all(log.is_file() for log in logs):
                continue
            if on_progress:
                on_progress(f"step {step.number}, {pair.name}")
            told = sidecar_of(logs[0])
            how = replace(options, run=request_of(told), compare_only=True)
            result = judge_model(step, pair, folder, how)
            result.folder = folder
            if result.error:
                raise UserError(result.error)
            results.append(result)
    if not results:
        where = options.out or "step*/log"
        raise UserError(f"{where}: no results of {', '.join(options.models)}: run a check first")
    return results


def bundle_results(
    results: Sequence[Result], options: CheckOptions, path: Path, page: Path | None = None
) -> Written:
    """Write a bundle of judged results.

    page   the report of all steps, where there is one
    """
    pairs = {pair.name: pair for pair in load_pairs(options.models)}
    parts, errors = [], {}
    for result in results:
        step = result.step
        if result.error:
            errors[f"step {step.number}, {result.model}"] = result.error
            continue
        pair, asked = pairs[result.model], asked_of(step.judged[0], result.folder)
        command = repeated(step, pair.model, asked, options)
        part = Part(result, command, asked | {"built_in": pair.built_in}, {})
        part.reports[f"{part.step}.html"] = base_folder(step, options) / html_page.FILE
        if page is not None:
            part.reports[page.name] = page
        parts.append(part)
    parts.sort(key=lambda part: (part.result.step.number, part.step, part.result.model))
    written_by = {"python": platform.python_version(), "numpy": np.__version__}
    about = {"commit": commit(), "written_by": written_by}
    return write_bundle(path, parts, about, options.strict, options.allow, errors)


def say_written(written: Written) -> None:
    """Tell where a bundle is, what it holds, and its root."""
    report.say(
        f"bundle: {shown(written.path)}, {written.size / 1e6:.1f} MB, {written.files} files; "
        f"{written.rows:,} rows, {written.inside:,} of them with their tensors"
    )
    report.say(f"root: {written.root}")
    command = [*program("common/verify.py"), shown(written.path)]
    report.say(f"verify it: {shlex.join(command)}")


def commit() -> dict[str, object]:
    """The checkout's commit, and whether files were changed since; "unknown" without git."""
    found = _git("rev-parse", "HEAD") if (ROOT / ".git").exists() else None
    if found is None:
        return {"id": "unknown"}
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {"id": found, "changed": None if changed is None else bool(changed)}


def _git(*words: str) -> str | None:
    """What git says; None where it does not."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
