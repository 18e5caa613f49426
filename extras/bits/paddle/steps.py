"""Step 5, paddle side: the MD5 of the first steps' losses and gradients.

python -m extras.bits.paddle.steps REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[3])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.pair.case_hooks import data_cases
from twincheck.common.sides import paddle_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.extras.bits.steps import STEM, steps
from twincheck.extras.shared.one_case import asked_precision

GROUP = side.join_group()

SCRIPT = Script(side, STEM, steps, asked_precision, cases=data_cases, group=GROUP)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
