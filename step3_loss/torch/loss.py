"""Step 3, torch side: the losses of every head, for each sample and reduced.

python -m step3_loss.torch.loss REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.worker import Script, main
from twincheck.step3_loss.loss import loss

SCRIPT = Script(side, "loss_all", loss, sums=True)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
