"""Step 1, paddle side: run the model once and log every probe and every output.

python -m step1_forward.paddle.forward REQUEST.json
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides.backend_paddle import side
from twincheck.common.sides.worker import Script, main
from twincheck.step1_forward.forward import forward

SCRIPT = Script(side, "forward_all", forward, decodes=True, sums=True)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
