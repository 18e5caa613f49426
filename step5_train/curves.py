"""The picture of step 5: both sides' curves, and their drift beside the self-twin's."""

from pathlib import Path

import numpy as np

from common.logs.reader import read_log
from common.logs.result_folder import ResultFolder
from common.pair.case_hooks import CURVES
from common.system.files import whole


def draw_curves(folder: Path, model: str) -> Path:
    """Write train_curves.png in a model's log folder of step 5; returns its path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with (
        read_log(ResultFolder(folder).log("train_full", "torch")) as torch_log,
        read_log(ResultFolder(folder).log("train_full", "paddle")) as paddle_log,
        read_log(ResultFolder(folder).log("train_self", "torch")) as self_log,
    ):
        losses = {
            "torch": torch_log["curve/loss"],
            "paddle": paddle_log["curve/loss"],
            "self": self_log["curve/loss"],
        }
        curves = {f"curve/{name}" for name in CURVES}
        score = next(k for k in torch_log if k.startswith("curve/") and k not in curves)
        scores = {"torch": torch_log[score], "paddle": paddle_log[score]}
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(12, 3.4))
    for side, style in (("torch", "-"), ("paddle", "--")):
        left.plot(np.arange(losses[side].size), losses[side], style, label=side, linewidth=1)
        epochs = np.arange(1, scores[side].size + 1)
        middle.plot(epochs, scores[side], style, label=side, marker=".")
    left.set(title=f"{model}: training loss", xlabel="step")
    middle.set(title=f"test {score.rpartition('/')[2].replace('_', ' ')}", xlabel="epoch")
    tiny = 2.0**-30  # a logarithmic axis cannot show a drift of zero
    for other, label in (("paddle", "torch − paddle"), ("self", "torch − torch one ulp away")):
        both = min(losses["torch"].size, losses[other].size)  # a side may have taken fewer steps
        drift = np.abs(losses["torch"][:both] - losses[other][:both]) + tiny
        right.semilogy(np.arange(both), drift, label=label, lw=0.8)
    right.set(title="difference of the losses", xlabel="step")
    for axes in (left, middle, right):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    target = ResultFolder(folder).training_curves()
    with whole(target) as temporary:
        figure.savefig(temporary, dpi=110, format="png")
    pyplot.close(figure)
    return target
