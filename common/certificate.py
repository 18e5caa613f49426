"""The certificate of conversion: the Paddle model holds the torch model's weights, all of them."""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("certificate"))  # extras/certificate
