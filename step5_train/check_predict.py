"""Step 5, predict: what both sides forecast behind a file's end, from one checkpoint.

The check of an extra, extras/forecast: --help says what it takes.
"""

import sys
from functools import partial
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

from common.system.extras import run

main = partial(run, "check_predict")

if __name__ == "__main__":
    sys.exit(main())
