"""Step 1, forward: do both sides compute the same, tensor by tensor?

twincheck step1 --model reformer
"""

from twincheck.common.check.command_line import of_step
from twincheck.common.check.steps import Launch, Step

STEP = Step(
    number=1,
    title="forward",
    script="forward",
    launches=(Launch(),),
    judged=("forward_all",),
    probes=True,
    guide_stem="forward",
    decodes=True,
    initial="forward_init",
)

main = of_step(STEP)
