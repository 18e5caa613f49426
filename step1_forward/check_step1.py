"""Step 1, forward: do both sides compute the same, tensor by tensor?

twincheck step1 --model reformer
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

if __name__ == "__main__":
    sys.exit(check_main(STEP))
