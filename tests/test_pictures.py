"""The pictures: what colour tells, a shape tells too; nothing hides; they end where they say."""

import io

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle

from twincheck.step5_train.curves import curves_figure


def shape_of(handle):
    """Return what grey print leaves of a legend's entry: its mark's outline, its line's style."""
    if isinstance(handle, Line2D):
        marker = MarkerStyle(handle.get_marker())
        outline = marker.get_path().transformed(marker.get_transform())
        return handle.get_linestyle(), outline.vertices.round(6).tobytes()
    (outline,) = handle.get_paths()
    return "None", outline.vertices.round(6).tobytes()


def legends(figure):
    return [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]


def confused(figure):
    """Count the entries of a legend that only their colour tells from an earlier one."""
    found = 0
    for legend in legends(figure):
        handles = legend.legend_handles
        shapes = [shape_of(handle) for handle in handles]
        assert len(shapes) == len(legend.get_texts()) > 1
        found += len(shapes) - len(set(shapes))
    return found


def covered(figure):
    """Return whether a legend lies on a panel."""
    figure.savefig(io.BytesIO(), format="png")
    boxes = [axes.get_window_extent() for axes in figure.axes if axes.axison]
    return any(
        legend.get_window_extent().overlaps(box) for legend in legends(figure) for box in boxes
    )


def curves(off=1e-6):
    loss = np.linspace(2, 0.1, 40)
    losses = {"torch": loss, "paddle": loss + off}
    score = np.array([0.5, 0.7])
    parts = [np.arange(20), np.arange(20, 40)]
    scores = {"torch": score, "paddle": score}
    return curves_figure("m", losses, "accuracy", scores, parts, [2e-6, 3e-6])


def test_no_entry_is_told_by_its_colour_alone_and_no_legend_lies_on_the_data():
    figure = curves()
    assert legends(figure) and confused(figure) == 0 and not covered(figure)


def test_what_is_exactly_the_same_is_not_drawn_as_a_number():
    for off, shown in ((1e-6, np.isfinite), (0.0, np.isnan)):
        *_, right = curves(off).axes
        difference, *limits = right.lines
        assert shown(difference.get_ydata()).all()
        assert len(limits) == 2 and all(np.isfinite(line.get_ydata()).all() for line in limits)
