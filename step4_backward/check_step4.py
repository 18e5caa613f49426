"""Step 4, backward: is every gradient the same, and ten steps of each optimizer?

The program of `twincheck step4`: --help lists its options.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from twincheck.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["step4", *sys.argv[1:]]))
