"""Step 4, torch side: every gradient, the witnesses, then ten steps of each optimizer set-up.

python -m step4_backward.torch.backward REQUEST.json
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.worker import Script, main
from twincheck.step4_backward.backward import backward, parts

SCRIPT = Script(side, "bp_align_all", backward, sums=True, parts=parts)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
