"""Step 5, predict: what both sides forecast behind a file's end, from one checkpoint.

The check of an extra, extras/forecast: --help says what it takes.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("check_predict"))  # extras/forecast
