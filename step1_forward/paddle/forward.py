"""Step 1, paddle side: run the model once and log every probe and every output.

python -m step1_forward.paddle.forward REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides.backend_paddle import side
from twincheck.common.sides.worker import Script, main
from twincheck.step1_forward.forward import forward

SCRIPT = Script(side, "forward_all", forward, decodes=True, sums=True)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
