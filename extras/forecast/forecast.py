"""Forecasts behind a file's end: the samples that both sides are given, and what becomes of them.

The file is read in the check's process; the workers take PART and the folder's name from here.
"""

from pathlib import Path

import numpy as np

from twincheck.common.pair.sources import ett
from twincheck.common.pair.windows import STARTS
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.extras.forecast import Kind

PART = "predict"  # of the data file
# Seconds between two rows.
_STEPS = {"s": 1, "t": 60, "h": 3600, "d": 86400, "b": 86400, "w": 7 * 86400}


def folder_of(data: str, model: str) -> Path:
    """A model's data folder."""
    return Path(data) / model


def samples(
    path: Path, config: dict, dates: np.ndarray, values: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What is forecast of a file's rows, as PART of the data, and the times behind it (pred_len,).

    The one sample behind the file's end; before it the last whose forecast the file itself holds.
    The scaler is fitted on all rows, as the reference does where it predicts.
    """
    if len(values) < config["seq_len"]:
        counts = {"rows": len(values), "read": config["seq_len"]}
        raise UserError(Kind.ROWS_FEW(path=str(path), **counts))
    ahead = config["pred_len"]
    later = following(dates[-1], config["freq"], ahead)
    mean, deviation = ett.scaler(values)
    targets = 1 if config["features"] in ("MS", "S") else values.shape[1]
    blank, times = np.zeros((ahead, values.shape[1])), np.concatenate([dates, later])
    last = len(values) - config["seq_len"]
    arrays = {
        "series/values": np.concatenate([(values - mean) / deviation, blank]),
        "series/marks": ett.marks(times, config["freq"], config["embed"]),
        "series/labels": np.concatenate([values, blank])[:, -targets:],
        "constants/target_mean": mean[-targets:],
        "constants/target_std": deviation[-targets:],
        f"{PART}/{STARTS}": np.array([start for start in (last - ahead, last) if start >= 0]),
        **ett.layout(config),
    }
    return arrays, later


def following(last: np.datetime64, freq: str, count: int) -> np.ndarray:
    """The times of the rows to come (count,), datetime64[s]: one of `freq` after the other."""
    if freq in ("m", "a"):  # the ends of months and years
        now = last.astype("datetime64[M]" if freq == "m" else "datetime64[Y]")
        ends = (now + np.arange(1, count + 2)).astype("datetime64[D]") - 1
        passed = int(last.astype("datetime64[D]") >= ends[0])  # of the one that runs
        return ends[passed : passed + count].astype("datetime64[s]")
    times = last + np.arange(1, count + 1) * np.timedelta64(_STEPS[freq], "s")
    if freq == "b":  # Monday to Friday
        days = last.astype("datetime64[D]")
        times = np.busday_offset(days, np.arange(1, count + 1), roll="backward") + (last - days)
    return times.astype("datetime64[s]")


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

    from twincheck.common.report import marks  # no worker needs it, and they import this file

    figure = Figure(figsize=(6 * len(panels), 3.4))
    axes = figure.subplots(1, len(panels), squeeze=False)
    for axis, (name, first, forecasts) in zip(axes[0], panels, strict=True):
        length = len(next(iter(forecasts.values())))
        begin = max(0, first - 3 * length)
        rows = np.arange(begin, min(first + length, len(truth)))
        axis.plot(rows, truth[rows], color="black", linewidth=1, label=Kind.PICTURE_FILE())
        for (side, values), style in zip(forecasts.items(), ("-", "--"), strict=True):
            axis.plot(first + np.arange(length), values, style, label=side, linewidth=1.5)
        axis.axvline(first - 0.5, color="gray", linewidth=0.8)
        axis.set(title=name, xlabel=Kind.PICTURE_ROW())
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    marks.save(figure, path)
