"""Step 2, metric: do both sides read the same batches, predict the same and score the same?

twincheck step2 --model fastformer
"""

from twincheck.common.check.command_line import of_step
from twincheck.common.check.steps import Launch, Step
from twincheck.step2_metric.opinions import STEM, scored, third_opinion

STEP = Step(
    number=2,
    title="metric",
    script="metric",
    launches=(Launch({"data_weights": "perturbed"}),),
    judged=("metric_all",),
    guide_stem=STEM,
    data=True,
    tokenizes=True,
    extra=third_opinion,
    answer=scored,
)

main = of_step(STEP)
