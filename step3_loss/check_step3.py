"""Step 3, loss: is every head's loss the same, for each sample and however it is reduced?

python step3_loss/check_step3.py --model reformer
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from common.check.command_line import check_main  # noqa: E402
from common.check.steps import Launch, Step  # noqa: E402

STEP = Step(
    number=3,
    title="loss",
    script="loss",
    launches=(Launch(),),
    judged=("loss_all",),
    guide_stem="loss",
)

if __name__ == "__main__":
    sys.exit(check_main(STEP))
