"""The certificate of conversion: the Paddle model holds the torch model's weights, all of them.

The command of an extra, extras/certificate: --help says what it takes.
"""

import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

from common.system.extras import run

main = partial(run, "certificate")

if __name__ == "__main__":
    sys.exit(main())
