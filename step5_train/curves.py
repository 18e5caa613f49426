"""The picture of step 5: both sides' curves, and their drift beside what it may be."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import CURVES
from twincheck.common.report import marks
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind

LIMIT = {"color": marks.RED, "linewidth": 1.4, "linestyle": "--"}
MARKS_OF_A_CURVE = 12  # of each side, between those of the other


def draw_curves(
    folder: Path, model: str, logs, parts: Sequence[np.ndarray], limits: Sequence[float]
) -> Path:
    """Write train_curves.png in a model's log folder of step 5; returns its path.

    logs    of both sides' trainings
    parts   the steps of each part of the training whose drift is judged
    limits  what was allowed of it
    """
    curves = {f"curve/{name}" for name in CURVES}
    score = next(k for k in logs[0] if k.startswith("curve/") and k not in curves)
    losses, scores = (
        {side: log[key] for side, log in zip(SIDES, logs, strict=True)}
        for key in ("curve/loss", score)
    )
    target = ResultFolder(folder).training_curves()
    name = score.rpartition("/")[2].replace("_", " ")
    marks.save(curves_figure(model, losses, name, scores, parts, limits), target)
    return target


def curves_figure(model: str, losses, score: str, scores, parts, limits):
    """Losses of each step of both sides, both sides' score of each epoch, and the losses' drift.

    The sides' curves lie on each other where all is well: torch's is wide and light, and Paddle's,
    which comes later, narrow and dark, so that both are seen.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.1))
    left, middle, right = figure.subplots(1, 3)
    for i, (side, mark) in enumerate((("torch", marks.TORCH), ("paddle", marks.PADDLE))):
        line = {"color": mark["color"], "linewidth": 1.0 if i else 4.0, "zorder": 2}
        seen = {"label": ("torch", "Paddle")[i], "edgecolors": marks.BLACK, "zorder": 3 + i}
        every = max(1, losses[side].size // MARKS_OF_A_CURVE)
        steps = np.arange(i * every // 2, losses[side].size, every)
        left.plot(losses[side], **line)
        size = 16 if i else 80
        left.scatter(steps, losses[side][steps], s=size, **mark, **seen)
        epochs = np.arange(1, scores[side].size + 1)
        middle.plot(epochs, scores[side], **line)
        middle.scatter(epochs, scores[side], s=size, **mark, **seen)
    left.set(title=Kind.CURVES_LOSS_OF(model=model))
    left.set(xlabel=Kind.HEADING_STEP(), ylabel=Kind.CURVES_LOSS())
    for axes in (left, middle):
        axes.xaxis.get_major_locator().set_params(integer=True)
    title = Kind.CURVES_SCORE_OF(score=score)
    middle.set(title=title, xlabel=Kind.CURVES_EPOCH(), ylabel=score)
    both = min(losses["torch"].size, losses["paddle"].size)  # a side may have taken fewer steps
    drift = np.abs(losses["torch"][:both] - losses["paddle"][:both])
    # What is exactly 0 cannot be shown on a logarithmic axis.
    shown = {"s": 4, "alpha": 0.3, "linewidths": 0.6, **marks.DIFFERENCE}
    right.scatter(np.arange(both), _shown(drift), **shown)
    there = [(part, limit) for part, limit in zip(parts, limits, strict=False) if part[-1] < both]
    rms = np.array([np.sqrt(np.mean(drift[part] ** 2)) for part, _ in there])
    places = [part.mean() for part, _ in there]
    right.plot(places, _shown(rms), label="torch − Paddle", linewidth=1.2, **marks.DIFFERENCE)
    for i, (part, limit) in enumerate(there):
        name = Kind.CURVES_ALLOWED() if i == 0 else None
        right.plot([part[0], part[-1]], [limit, limit], label=name, **LIMIT)
    right.set(title=Kind.CURVES_DIFFERENCE(), xlabel=Kind.HEADING_STEP(), yscale="log")
    right.set_ylabel(Kind.CURVES_STEP_AND_PART())
    for axes in (left, middle, right):
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "frameon": False}
        axes.legend(fontsize=8, ncols=2, **place)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    return figure


def _shown(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)
