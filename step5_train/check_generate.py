"""Step 5, generate: do both sides write the same text from one checkpoint?

The check of an extra, extras/generation: --help says what it takes.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("check_generate"))  # extras/generation
