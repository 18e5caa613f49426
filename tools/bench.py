"""How fast and how lean this workbench is, beside its peers: docs/performance.md.

The command of an extra, extras/bench: --help says what it takes.
"""

import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich", "matplotlib")

from twincheck.common.system.extras import run

main = partial(run, "bench")

if __name__ == "__main__":
    sys.exit(main())
