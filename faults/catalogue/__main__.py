"""List the catalogue: step, model, name and what is wrong, a line a fault.

python -m faults.catalogue
"""

import sys

from faults.catalogue import FAULTS
from twincheck.common.system.program import Parser, guarded


def main() -> int:
    """Print the list; returns the exit status."""
    for fault in FAULTS:
        print(f"step {fault.step}  {fault.name:<17} {fault.id:<30} {fault.what}")
    return 0


if __name__ == "__main__":
    Parser(__doc__).parse_args()
    sys.exit(guarded(False, main))
