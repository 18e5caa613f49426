"""The colours and marks of every picture: what colour tells, a mark's shape tells too.

The colours are those of Okabe and Ito, which readers who see few colours tell apart; where two
stand side by side, one is light and the other dark, so that a print in grey does too.
"""

from pathlib import Path

from twincheck.common.system.files import whole

ORANGE, GREEN, BLUE, RED = "#e69f00", "#009e73", "#0072b2", "#d55e00"
BLACK = "#000000"

# Series -> what matplotlib's scatter takes of it.
TORCH = {"color": ORANGE, "marker": "o"}
PADDLE = {"color": BLUE, "marker": "s"}
DIFFERENCE = {"color": BLACK, "marker": "x"}


def save(figure, target: Path) -> None:
    """Write a figure of matplotlib's as PNG, all or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole(target) as temporary:
        figure.savefig(temporary, dpi=110, format="png")
