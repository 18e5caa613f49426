"""Put what the steps have left into a bundle: a check's own results, or those of an earlier one."""

import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.record import asked_of, repeated
from twincheck.common.check.result import Result, shown
from twincheck.common.check.runner import base_folder
from twincheck.common.pair.pairs import load_pairs
from twincheck.common.report import html_page
from twincheck.common.report import terminal as report
from twincheck.common.system.door import to_type
from twincheck.common.system.frameworks import SIDES
from twincheck.extras.bundle import Kind
from twincheck.extras.bundle.write import Part, Written, write_bundle
from twincheck.extras.shared.made_by import commit

NAME = "bundle.zip"


def leave_bundle(results: Sequence[Result], options: CheckOptions, folder: Path) -> None:
    """Write a bundle at the end of a check of all steps, where one was judged, and tell of it.

    folder   where the report of all steps is, and the bundle will be
    """
    # Whoever verifies a bundle asks for a port: logs of one framework are refused there.
    if options.run.backends == SIDES and any(not result.error for result in results):
        say_written(bundle_results(results, options, folder / NAME, folder / html_page.FILE))


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
        command = repeated(step, pair, asked, options)
        part = Part(result, command, asked, {})
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
    held = {"files": written.files, "rows": written.rows, "inside": written.inside}
    report.say(Kind.WRITTEN(path=shown(written.path), size=written.size / 1e6, **held))
    report.say(Kind.WRITTEN_ROOT(root=written.root))
    report.say(Kind.VERIFY_IT(command=to_type("verify", written.path)))
