"""Convert a checkpoint from one side's format to the other's, and certify what was written."""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("converter"))  # extras/certificate
