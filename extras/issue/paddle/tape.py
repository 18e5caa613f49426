"""What paddle computes in one case, operator by operator (extras/issue/tape.py).

python -m extras.issue.paddle.tape REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[3])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides.backend_paddle import side
from twincheck.common.sides.group import join_group
from twincheck.common.sides.worker import Script, main
from twincheck.extras.issue.calls_in_paddle import recording
from twincheck.extras.issue.taken import STEM, take
from twincheck.extras.shared.one_case import asked_precision

GROUP = join_group(side)


def taken(run):
    """Take down the operators of the step that is asked for."""
    take(run, recording)


SCRIPT = Script(side, STEM, taken, asked_precision, group=GROUP)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
