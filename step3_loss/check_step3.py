"""Step 3, loss: is every head's loss the same, for each sample and however it is reduced?

The program of `twincheck step3`: --help lists its options.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from twincheck.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["step3", *sys.argv[1:]]))
