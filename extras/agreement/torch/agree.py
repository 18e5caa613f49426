"""Step 2, torch side: what the model chooses for batches of examples that the check has prepared.

python -m extras.agreement.torch.agree REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[3])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides import torch_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.extras.agreement.answers import agree, cases
from twincheck.extras.shared.one_case import asked_precision

SCRIPT = Script(side, "agree", agree, asked_precision, cases=cases)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
