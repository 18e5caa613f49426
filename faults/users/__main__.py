"""python -m faults.users: see run.py."""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin

    begin("numpy", "rich")

from faults.users.run import main

if __name__ == "__main__":
    sys.exit(main())
