"""Set up a pair: of two models that are named, down to step 1's verdict; or an empty one."""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("new"))  # extras/new_pair
