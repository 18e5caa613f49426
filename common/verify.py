"""Verify a bundle that somebody handed in: neither framework is needed, nothing of it is executed.

The command of an extra, extras/bundle: --help says what it takes.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("verify", packages=("numpy",)))  # extras/bundle
