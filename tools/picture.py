"""Draw the way of a tensor from a module to the table: pics/tensor-way.png, for common/README.md.

    python -m tools.picture

Every box names the file that does the work, from common/; a test looks for these files.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("matplotlib")

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from twincheck.common.system.checkout import ROOT

PICTURE = ROOT / "pics" / "tensor-way.png"
SIZE = (8.0, 7.55)  # inches; the page shows it about as large
TORCH, PADDLE, CHECK = "#fde0cc", "#d6e6f5", "#e2efd9"
LEFT, RIGHT, WIDTH = 0.35, 4.55, 3.1  # of the two columns


@dataclass(frozen=True)
class Box:
    """One station: what happens in large letters, the files below it in small ones."""

    left: float
    top: float
    width: float
    what: str
    files: tuple[str, ...]
    height: float = 0.72

    @property
    def middle(self) -> float:
        """Where an arrow from above or below meets it."""
        return self.left + self.width / 2

    @property
    def bottom(self) -> float:
        """Where it ends."""
        return self.top + self.height


def side(name: str, left: float) -> list[Box]:
    """The stations inside one framework's process."""
    writers = ("sides/write_log.py", "logs/writer.py")
    return [
        Box(left, 1.75, WIDTH, "a module returns a tensor", (f"models/…/{name}_model.py",)),
        Box(left, 2.75, WIDTH, "a probe sees it and names it by a key", ("sides/probes.py",)),
        Box(left, 3.75, WIDTH, "it goes into the log as it is made", writers),
    ]


GIVEN = Box(
    LEFT,
    0.15,
    RIGHT + WIDTH - LEFT,
    "the same inputs, random numbers and weights for both",
    ("pair/pairs.py", "pair/tape.py", "weights/states.py"),
)
COLUMNS = {"torch": side("torch", LEFT), "paddle": side("paddle", RIGHT)}
READ = Box(
    LEFT, 5.75, RIGHT + WIDTH - LEFT, "the logs are read, never executed", ("logs/reader.py",)
)
JUDGED = Box(LEFT, 6.7, WIDTH, "judged: one row", ("verdict/judge.py", "verdict/rule.py"))
SHOWN = Box(RIGHT, 6.7, WIDTH, "the table, and where it goes wrong", ("report/terminal.py",))
BOXES = [GIVEN, *COLUMNS["torch"], *COLUMNS["paddle"], READ, JUDGED, SHOWN]


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the picture; returns the exit status."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(arguments)
    draw(PICTURE)
    return 0


def draw(target: Path) -> None:
    """What both sides are given, their processes, the files they leave, the check's process."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=SIZE)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, SIZE[0]), ylim=(SIZE[1], 0))
    axes.axis("off")
    _process(axes, LEFT - 0.2, 1.3, WIDTH + 0.4, 3.35, "torch process", TORCH)
    _process(axes, RIGHT - 0.2, 1.3, WIDTH + 0.4, 3.35, "Paddle process", PADDLE)
    _process(axes, LEFT - 0.2, 5.3, RIGHT + WIDTH - LEFT + 0.4, 2.2, "check's process", CHECK)
    for box in BOXES:
        _box(axes, box)
    for name, stations in COLUMNS.items():
        middle = stations[0].middle
        for box, following in zip([GIVEN, *stations], stations, strict=False):
            _arrow(axes, (middle, box.bottom), (middle, following.top))
        _arrow(axes, (middle, stations[-1].bottom), (middle, READ.top))
        axes.text(
            middle,
            4.96,
            f"forward_{name}.npy, forward_{name}_fp64.npy\n"
            "each with a .json that says who wrote it",
            fontsize=8.5,
            ha="center",
            va="center",
            bbox={"fc": "white", "ec": "#555555", "ls": "--", "boxstyle": "square,pad=0.35"},
        )
    _arrow(axes, (JUDGED.middle, READ.bottom), (JUDGED.middle, JUDGED.top))
    height = JUDGED.top + JUDGED.height / 2
    _arrow(axes, (JUDGED.left + JUDGED.width, height), (SHOWN.left, height))
    figure.savefig(target, dpi=130)
    pyplot.close(figure)


def _process(axes, left, top, width, height, name, colour) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (left, top), width, height, boxstyle="round,pad=0,rounding_size=0.12", fc=colour, ec="none"
    )
    axes.add_patch(shape)
    axes.text(left + 0.2, top + 0.24, name, fontsize=11, weight="bold", va="center")


def _box(axes, box: Box) -> None:
    from matplotlib.patches import Rectangle

    shape = Rectangle((box.left, box.top), box.width, box.height, fc="white", ec="#555555", lw=0.8)
    axes.add_patch(shape)
    middle = box.left + box.width / 2
    axes.text(middle, box.top + 0.24, box.what, fontsize=9.5, ha="center", va="center")
    axes.text(
        middle,
        box.top + 0.5,
        ", ".join(box.files),
        fontsize=8.5,
        family="monospace",
        color="#444444",
        ha="center",
        va="center",
    )


def _arrow(axes, start, end) -> None:
    axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": "#333333"})


if __name__ == "__main__":
    sys.exit(main())
