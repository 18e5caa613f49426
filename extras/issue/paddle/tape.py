"""What paddle computes in one case, operator by operator (extras/issue/tape.py).

python -m extras.issue.paddle.tape REQUEST.json
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides import paddle_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.extras.issue.calls_in_paddle import recording
from twincheck.extras.issue.taken import STEM, take
from twincheck.extras.shared.one_case import asked_precision

GROUP = side.join_group()


def taken(run):
    """Take down the operators of the step that is asked for."""
    take(run, recording)


SCRIPT = Script(side, STEM, taken, asked_precision, group=GROUP)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
