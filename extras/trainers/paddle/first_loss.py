"""Step 5, paddle side: the loss of the first batches from the shared start, token by token.

python -m extras.trainers.paddle.first_loss REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[3])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides import paddle_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.extras.shared.one_case import asked_precision
from twincheck.extras.trainers.first_loss import cases, first_loss

SCRIPT = Script(side, "first_loss", first_loss, asked_precision, cases=cases)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
