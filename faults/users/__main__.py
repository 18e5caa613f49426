"""python -m faults.users: see run.py."""

import sys

from faults.users.run import main

if __name__ == "__main__":
    sys.exit(main())
