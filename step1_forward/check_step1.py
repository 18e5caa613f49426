"""Step 1, forward: do both sides compute the same, tensor by tensor?

python step1_forward/check_step1.py --model reformer
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from common.check.command_line import check_main  # noqa: E402
from common.check.steps import Launch, Step  # noqa: E402

STEP = Step(
    number=1,
    title="forward",
    script="forward",
    launches=(Launch(),),
    judged=("forward_all",),
    guide_stem="forward",
    decodes=True,
)

if __name__ == "__main__":
    sys.exit(check_main(STEP))
