"""Forecasts behind a file's end: the samples that both sides are given, and what becomes of them.

The file is read in the check's process; the workers take PART and the folder's name from here.
"""

from pathlib import Path

import numpy as np

from common.system.files import write_text

PART = "predict"  # of the data file


def folder_of(data: str, model: str) -> Path:
    """A model's data folder."""
    return Path(data) / model


def with_known(arrays: dict[str, np.ndarray], config: dict) -> dict[str, np.ndarray]:
    """The samples of common/pair/sources/ett.py's `future`, and before it one with its truth.

    That is the last sample whose forecast the file itself holds.
    """
    last = arrays[f"{PART}/starts"]
    known = last - config["pred_len"]
    return {**arrays, f"{PART}/starts": np.concatenate([known[known >= 0], last])}


def write_table(path: Path, times: np.ndarray, columns: dict[str, np.ndarray]) -> None:
    """A CSV file of forecasts (rows,) by name, with their times."""
    lines = [",".join(["date", *columns])]
    for i, time in enumerate(times):
        cells = [f"{values[i]:.6g}" for values in columns.values()]
        lines.append(",".join([str(time).replace("T", " "), *cells]))
    write_text(path, "\n".join(lines) + "\n")


def draw(path: Path, title: str, truth: np.ndarray, panels: list[tuple[str, int, dict]]) -> None:
    """The picture of the last column: what is known, and each side's forecast.

    truth   (T,) all rows of the file
    panels  (title, first row of the forecast, {side: (rows,)})
    """
    from matplotlib.figure import Figure

    from common.report import marks  # no worker needs it, and they import this file

    figure = Figure(figsize=(6 * len(panels), 3.4))
    axes = figure.subplots(1, len(panels), squeeze=False)
    for axis, (name, first, forecasts) in zip(axes[0], panels, strict=True):
        length = len(next(iter(forecasts.values())))
        begin = max(0, first - 3 * length)
        rows = np.arange(begin, min(first + length, len(truth)))
        axis.plot(rows, truth[rows], color="black", linewidth=1, label="the file")
        for (side, values), style in zip(forecasts.items(), ("-", "--"), strict=True):
            axis.plot(first + np.arange(length), values, style, label=side, linewidth=1.5)
        axis.axvline(first - 0.5, color="gray", linewidth=0.8)
        axis.set(title=name, xlabel="row of the file")
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    marks.save(figure, path)
