"""Step 3, loss: is every head's loss the same, for each sample and however it is reduced?

twincheck step3 --model reformer
"""

from twincheck.common.check.command_line import of_step
from twincheck.common.check.steps import Launch, Step

STEP = Step(
    number=3,
    title="loss",
    script="loss",
    launches=(Launch(),),
    judged=("loss_all",),
    guide_stem="loss",
)

main = of_step(STEP)
