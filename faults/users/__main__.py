"""python -m faults.users: see run.py."""

import sys

from faults.users.run import main

sys.exit(main())
