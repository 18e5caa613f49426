"""Step 4, backward: is every gradient the same, and ten steps of each optimizer?

twincheck step4 --model reformer
"""

from twincheck.common.check.command_line import of_step
from twincheck.common.check.steps import Launch, Step
from twincheck.step4_backward.witnesses import witnesses

STEP = Step(
    number=4,
    title="backward",
    script="backward",
    launches=(Launch(),),
    judged=("bp_align_all",),
    probes=True,
    guide_stem="bp_align",
    optimizers=True,
    extra=witnesses,
)

main = of_step(STEP)
