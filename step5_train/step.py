"""Step 5, train: do the twins train alike, from the same start, order and dropout?

    twincheck step5 --model fastformer [--seeds 5] [--resume]

The first steps must agree to rounding.  Later the two runs drift apart, as any two runs do that
differ in the last bit: how far is judged against self-twins of both sides, whose starts are moved
by one rounding.  Where these do not explain it, both sides train once more in float64.
"""

from twincheck.common.check.command_line import of_step
from twincheck.common.check.steps import Launch, Step
from twincheck.common.system.reasons import Kind
from twincheck.step5_train.answers import answered, decided
from twincheck.step5_train.further import further, is_stored
from twincheck.step5_train.trained import STEM, THRESHOLD, trained_alike

STEP = Step(
    number=5,
    title="train",
    script="train",
    launches=(
        Launch({"phase": "first"}),
        Launch(
            {"phase": "full"},
            teacher_forced=False,
            side_by_side=True,
            then=(Launch({"phase": "self"}),),
        ),
    ),
    judged=("train_first",),
    guide_stem=STEM,
    guide_threshold=THRESHOLD,
    guide_failure=Kind.TRAIN_SCORES_DIFFER(),
    data=True,
    trains=True,
    initial="train_init",
    extra=trained_alike,
    answer=answered,
    decides=decided,
    spares=is_stored,
    undecided=further,
)

main = of_step(STEP)
