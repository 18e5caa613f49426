"""Measure the emulated half precision of Paddle's operators against torch's own kernels on a CPU.

    python -m tools.half_operators                 a table, for docs/half-precision.md
    python -m tools.half_operators --dtype float16

Each operator gets the same rounded values on both sides, forward and gradient.  An error is the
root mean square of the distance from torch's float64, as a part of that result's own; 0.2 of the
precision's epsilon is what one rounding of the result makes.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "torch", "paddle")

import argparse
from collections.abc import Sequence

from twincheck.common.system.half import EPSILONS, HALF


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=HALF, default=HALF[0])
    dtype = parser.parse_args(arguments).dtype
    from tools.half_table import measured  # it imports both frameworks

    print(f"Errors in epsilons of {dtype} ({EPSILONS[dtype]:g}).\n")
    print("| operator | torch | Paddle, emulated | gradient: torch | Paddle, emulated |")
    print("|---|---|---|---|---|")
    for found in measured(dtype):
        cells = (f"{value / EPSILONS[dtype]:.3f}" for value in found[1:])
        print(f"| {found.name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
