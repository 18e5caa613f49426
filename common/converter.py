"""Convert a checkpoint from one side's format to the other's, and certify what was written.

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

main = partial(run, "converter")

if __name__ == "__main__":
    sys.exit(main())
