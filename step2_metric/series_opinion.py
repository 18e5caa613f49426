"""A third opinion on series and forecasts, by pandas and scikit-learn, in the check's process.

Both sides read one data file (common/pair/sources/ett.py), so that only this can find it wrong.  It
reads the source anew, scales it with scikit-learn, takes the times apart with pandas, and cuts the
first and the last sample of the test out of that; scores are scikit-learn's.
"""

from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.case_hooks import SOURCE_FILE, data_preset
from twincheck.common.pair.sources import source_settings
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import Row, claim

INPUTS = ("x_enc", "x_mark_enc", "x_dec", "x_mark_dec", "labels")
ALLOWED = 1e-12  # of a scaled value: roundings of its mean and deviation
SCORE_ALLOWED = 1e-10  # of a score, in float64
# Rows of a part, as the paper counts its months: 30 days, from where and how many.
MONTHS = {"train": (0, 12), "validation": (12, 4), "test": (16, 4)}


def series_opinion(folder: Path, pair, data: Path) -> tuple[list[Row], list[str]]:
    """Rows pandas/INPUT/SIDE: how far a side's first test batch is from what is derived here."""
    told = sidecar_of(ResultFolder(folder).log("metric_all", "torch"))
    preset = data_preset(pair, told.preset or "default")
    settings = source_settings(pair, preset)
    if not settings or settings["source"] != "ett":
        return [], []
    if not (data / SOURCE_FILE).is_file():
        return [], [Kind.SERIES_NOT_AT_HAND()]
    path = Path(load_json(data / SOURCE_FILE)["path"])
    wanted = first_samples(path, pair.config(preset), settings["split"], 2)
    rows = []
    for side in SIDES:
        with read_log(ResultFolder(folder).log("metric_all", side)) as log:
            for name in INPUTS:
                key = f"test/batch/000/{name}"
                if key not in log:
                    continue
                values, expected = log[key][: len(wanted[name])], wanted[name]
                same = values.shape == expected.shape
                off = float(np.abs(values - expected).max()) if same else np.inf
                size = float(np.abs(expected).max()) or 1.0
                # The log of a float32 run holds what the loader gave: float64.
                note = Kind.SERIES_BY_PANDAS(name=name)
                rows.append(claim(f"pandas/{name}/{side}", off, ALLOWED * size, note))
    return rows, []


def first_samples(path: Path, config: dict, split: str, count: int) -> dict[str, np.ndarray]:
    """Input -> its first samples (count, ...) of the test part."""
    import pandas
    from sklearn.preprocessing import StandardScaler

    table = pandas.read_csv(path, parse_dates=["date"])
    target = config["target"]
    columns = [name for name in table.columns if name not in ("date", target)] + [target]
    if split != "share":
        columns = [name for name in table.columns if name != "date"]
    columns = [target] if config["features"] == "S" else columns
    rows, start, ahead = config["seq_len"], config["label_len"], config["pred_len"]
    if split == "share":
        train, test = int(len(table) * 0.7), len(table) - int(len(table) * 0.2)
    else:
        month = 30 * 24 * (4 if split == "minute" else 1)
        train, test = MONTHS["train"][1] * month, MONTHS["test"][0] * month
    values = table[columns]
    scaled = StandardScaler().fit(values[:train].to_numpy()).transform(values.to_numpy())
    targets = 1 if config["features"] in ("MS", "S") else len(columns)
    labels = (values.to_numpy() if config["inverse"] else scaled)[:, -targets:]
    times = marks(table["date"].dt, config)
    begins = range(test - rows, test - rows + count)
    decoded = np.full([count, start + ahead, scaled.shape[1]], float(config["padding"]))
    for i, begin in enumerate(begins):
        decoded[i, :start] = scaled[begin + rows - start : begin + rows]
    return {
        "x_enc": np.stack([scaled[b : b + rows] for b in begins]),
        "x_mark_enc": np.stack([times[b : b + rows] for b in begins]),
        "x_dec": decoded,
        "x_mark_dec": np.stack([times[b + rows - start : b + rows + ahead] for b in begins]),
        "labels": np.stack([labels[b + rows : b + rows + ahead] for b in begins]),
    }


def marks(dates, config: dict) -> np.ndarray:
    """The times of the rows, by pandas' own parts of a date."""
    if config["embed"] != "timeF":
        parts = [dates.month, dates.day, dates.day_of_week, dates.hour]
        parts += [dates.minute // 15] if config["freq"] in ("t", "s") else []
        return np.stack([np.asarray(part) for part in parts], axis=1)
    weekly = np.asarray(dates.isocalendar().week, dtype=float)
    finest = [
        ("s", dates.second / 59),
        ("t", dates.minute / 59),
        ("h", dates.hour / 23),
        ("d", dates.day_of_week / 6),
        ("d", (dates.day - 1) / 30),
        ("d", (dates.day_of_year - 1) / 365),
    ]
    order = "sthd"
    freq = {"b": "d"}.get(config["freq"], config["freq"])
    if freq in ("m", "a"):
        found = [(dates.month - 1) / 11]
    elif freq == "w":
        found = [(dates.day - 1) / 30, (weekly - 1) / 52]
    else:
        found = [part for unit, part in finest if order.index(unit) >= order.index(freq)]
    return np.stack([np.asarray(part, dtype=float) - 0.5 for part in found], axis=1)


def forecast_opinion(side: str, log) -> list[Row]:
    """A side's scores of its forecasts against scikit-learn's and NumPy's own."""
    from sklearn.metrics import (
        mean_absolute_error,
        mean_squared_error,
        r2_score,
        root_mean_squared_error,
    )

    predictions, labels = (
        np.asarray(log[key], dtype=np.float64) for key in ("test/predictions", "test/labels")
    )
    flat, true = predictions.ravel(), labels.ravel()
    apart = [values.reshape(len(values), -1).T for values in (predictions, labels)]
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in zip(*apart, strict=True)]
    opinions = {
        "mae": mean_absolute_error(true, flat),
        "mse": mean_squared_error(true, flat),
        "rmse": root_mean_squared_error(true, flat),
        "rse": np.sqrt(1.0 - r2_score(true, flat)),
        "corr": np.mean(pairs),
    }
    rows = []
    for name, opinion in opinions.items():
        value = float(log[name])
        note = Kind.SCORE_OF_SCIKIT_OR_NUMPY(side=side, own=value, theirs=opinion)
        allowed = SCORE_ALLOWED * max(1.0, abs(float(opinion)))
        rows.append(claim(f"scikit-learn/{name}/{side}", abs(value - opinion), allowed, note))
    return rows
