"""Step 1, torch side: run the model once and log every probe and every output.

python -m step1_forward.torch.forward REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.worker import Script, main
from twincheck.step1_forward.forward import forward

SCRIPT = Script(side, "forward_all", forward, decodes=True, sums=True)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
