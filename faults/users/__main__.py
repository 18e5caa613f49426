"""python -m faults.users: see run.py."""

import sys

from common.system.start import begin

begin("numpy", "rich")

from faults.users.run import main  # noqa: E402

sys.exit(main())
