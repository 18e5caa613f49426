"""Step 5, train: do the twins train alike, from the same start, order and dropout?

The program of `twincheck step5`: --help lists its options.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from twincheck.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["step5", *sys.argv[1:]]))
