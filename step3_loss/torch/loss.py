"""Step 3, torch side: the losses of every head, for each sample and reduced.

python -m step3_loss.torch.loss REQUEST.json
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.worker import Script, main
from twincheck.step3_loss.loss import loss

SCRIPT = Script(side, "loss_all", loss, sums=True)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
