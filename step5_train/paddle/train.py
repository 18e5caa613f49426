"""Step 5, paddle side: training on the data, from the shared start, in the tape's order.

    python -m step5_train.paddle.train REQUEST.json

step5_train/train.py is the training, on both sides.
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.pair.case_hooks import data_cases
from twincheck.common.sides.backend_paddle import side
from twincheck.common.sides.worker import Script, main
from twincheck.step5_train.train import precisions, stem, train

SCRIPT = Script(side, stem, train, precisions, cases=data_cases)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
