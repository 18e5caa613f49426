"""Step 5, torch side: forecast what comes behind a file's end, from a checkpoint.

python -m extras.forecast.torch.predict REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[3])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides import torch_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.extras.forecast.predict import cases, predict

SCRIPT = Script(side, "predict", predict, cases=cases)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
