"""The steps that judge a model's code by what it computes, the others, and a check of one."""

from collections.abc import Callable

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.result import Result
from twincheck.common.check.runner import run_step
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.pair.worker_process import Failure
from twincheck.common.system.errors import UserError
from twincheck.extras.shared import Kind
from twincheck.step1_forward.step import STEP as FORWARD
from twincheck.step2_metric.step import STEP as METRIC
from twincheck.step3_loss.step import STEP as LOSS
from twincheck.step4_backward.step import STEP as BACKWARD
from twincheck.step5_train.step import STEP as TRAINING

STEPS = (FORWARD, LOSS, BACKWARD)
OTHERS = (METRIC, TRAINING)  # they judge data, metrics and whole trainings


class NotCompared(UserError):
    """A check could not compare; has the failure of a side's worker where that is why."""

    def __init__(self, sentence: str, failure: Failure | None):
        super().__init__(sentence)
        self.failure = failure


def crashed_at(error: UserError) -> str:
    """Return file:line of the port where it raised what ended its check; empty where it did not."""
    failure = getattr(error, "failure", None)
    return failure.crashed_at if failure is not None and failure.side == "paddle" else ""


def checked(
    step: Step,
    options: CheckOptions,
    on_progress: Callable[[str], None],
    processes: Processes | None = None,
) -> Result:
    """Run a step's check of the one model; raises NotCompared where it cannot run.

    processes   as run_step takes them
    """
    on_progress(Kind.STEP(number=step.number))
    result = run_step(step, options, on_progress, processes)[0]
    if result.error:
        raise NotCompared(result.error, result.failure)
    return result
