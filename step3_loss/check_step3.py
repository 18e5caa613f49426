"""Step 3, loss: is every head's loss the same, for each sample and however it is reduced?

twincheck step3 --model reformer
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich")


from twincheck.common.check.command_line import check_main
from twincheck.common.check.steps import Launch, Step

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
