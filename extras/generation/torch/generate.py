"""Step 5, torch side: generate tokens behind a prompt.

python -m extras.generation.torch.generate REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[3])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.sides import torch_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.extras.generation.generate import cases, generate

SCRIPT = Script(side, "generate", generate, cases=cases)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
