"""Judge the results that are there once more; of two, OLD NEW: what got worse or better.

    twincheck report [DIR] [--json FILE] [--out DIR]

Of whichever steps have results; nothing runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.record import request_of
from twincheck.common.check.result import Result
from twincheck.common.check.runner import base_folder, judge_model
from twincheck.common.check.steps import Step
from twincheck.common.check_all import show_steps
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import load_pairs
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind


def judge_again(
    steps: Sequence[Step], options: CheckOptions, on_progress: Callable | None = None
) -> list[Result]:
    """The results that are there of these steps and models, judged as --compare-only does.

    Raises UserError where there is none, or where logs can show nothing.
    """
    results = []
    for pair in load_pairs(options.models, options.run.backends):
        for step in steps:
            folder = base_folder(step, options) / pair.name
            logs = [ResultFolder(folder).log(step.judged[0], side) for side in SIDES]
            if not all(log.is_file() for log in logs):
                continue
            if on_progress:
                on_progress(Kind.STEP_NAMED(step=step.number, name=pair.name))
            told = sidecar_of(logs[0])
            how = replace(options, run=request_of(told), compare_only=True, no_report=True)
            result = judge_model(step, pair, folder, how)
            result.folder = folder
            if result.error:
                raise UserError(result.error)
            results.append(result)
    if not results:
        where = str(options.out or "step*/log")
        raise UserError(Kind.RESULTS_MISSING(folder=where, models=list(options.models)))
    return results


main = of_pairs("--out")(partial(show_steps, __doc__, "report", judge_again))
