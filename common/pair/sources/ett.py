"""Series for forecasting: ETT's hourly and minute files, and any CSV file with a date column.

Settings, in DATA of a pair's case.py:

    split      hour or minute: 12 months of 30 days are for training, 4 for validation, 4 for the
               test, and what comes after is not used, as for ETTh1 and ETTm1; share: 70, 10 and
               20 per cent of the rows
    default    a file in fake_data/ that is read without --data

The configuration says what a sample is: seq_len, label_len, pred_len; features, target, inverse;
freq and embed (how the time is told); padding.  Its enc_in, dec_in and c_out follow the file.

Values are scaled by the mean and the deviation of the training rows alone.  A part's first sample
reads the last seq_len rows of the part before it, so that its first forecast begins the part.
The data file holds the series once (common/pair/windows.py).
"""

import csv
import datetime
import math
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from twincheck.common.pair.sources.request import Dataset, Source, SourceRequest
from twincheck.common.pair.windows import STARTS
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind

_MONTH = 30 * 24  # hours, as the reference counts
_MONTHS = {"train": 12, "validation": 4, "test": 4}
_ROWS_OF_HOUR = {"hour": 1, "minute": 4}
DEFAULTS = {
    "features": "M",
    "target": "OT",
    "inverse": False,
    "padding": 0,
    "freq": "h",
    "embed": "timeF",
}
SPLITS = (*_ROWS_OF_HOUR, "share")
_DATE = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.0*)?)?)?"
)
# What the time is told in, by frequency: the finest first.
FEATURES = {
    "s": ("second", "minute", "hour", "weekday", "day", "day_of_year"),
    "t": ("minute", "hour", "weekday", "day", "day_of_year"),
    "h": ("hour", "weekday", "day", "day_of_year"),
    "d": ("weekday", "day", "day_of_year"),
    "b": ("weekday", "day", "day_of_year"),
    "w": ("day", "week"),
    "m": ("month",),
    "a": ("month",),
}
# The first value of each and how far it goes: a feature is within ±0.5.
_RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "weekday": (0, 6),
    "day": (1, 30),
    "day_of_year": (1, 365),
    "week": (1, 52),
    "month": (1, 11),
}
_TABLES = ("month", "day", "weekday", "hour")  # rows of tables; and quarters of an hour


def build(request: SourceRequest) -> Dataset:
    """The file's series, scaled, its times, and where the samples of each part start."""
    config, path = told(request.config), request.path
    request.on_progress(Kind.SERIES_READ(name=path.name))
    dates, names, values = read_series(path)
    values, names = chosen_columns(path, values, names, config, request.settings["split"])
    parts = borders(path, len(values), request.settings["split"], config["seq_len"])
    mean, deviation = scaler(values[slice(*parts["train"])])
    scaled = (values - mean) / deviation
    targets = 1 if config["features"] in ("MS", "S") else values.shape[1]
    arrays = {
        "series/values": scaled,
        "series/marks": marks(dates, config["freq"], config["embed"]),
        "series/labels": (values if config["inverse"] else scaled)[:, -targets:],
        **layout(config),
    }
    if config["inverse"]:
        arrays["constants/target_mean"] = mean[-targets:]
        arrays["constants/target_std"] = deviation[-targets:]
    counts = []
    for part, (first, end) in parts.items():
        count = end - first - config["seq_len"] - config["pred_len"] + 1
        if count < 1:
            said = {"rows": end - first, "read": config["seq_len"], "ahead": config["pred_len"]}
            raise UserError(Kind.SERIES_PART_TOO_SHORT(path=str(path), part=part, **said))
        arrays[f"{part}/{STARTS}"] = first + np.arange(count, dtype=np.int64)
        counts.append(Kind.SERIES_PART(part=part, count=count, first=first, end=end))
    entries = {"enc_in": values.shape[1], "dec_in": values.shape[1], "c_out": targets}
    said = {"name": path.name, "count": len(values), "names": ", ".join(names)}
    notes = [Kind.SERIES_HOLDS(**said, parts=counts)]
    if parts["test"][1] < len(values):
        notes.append(Kind.SERIES_UNUSED(count=len(values) - parts["test"][1]))
    return Dataset(arrays, entries, notes + uneven(dates))


def told(config: dict) -> dict:
    """Return a configuration with the defaults of what it leaves out; freq as one letter."""
    found = {**DEFAULTS, **config}
    freq = str(found["freq"]).lower()
    found["freq"] = "t" if freq.endswith("min") else freq[-1:]
    for key, known in (("freq", FEATURES), ("features", ("M", "S", "MS"))):
        if found[key] not in known:
            told = {"name": key, "value": repr(found[key]), "allowed": ", ".join(known)}
            raise UserError(Kind.SERIES_SETTING_REFUSED(**told))
    for key in ("seq_len", "label_len", "pred_len"):
        if type(found.get(key)) is not int or found[key] < 0:
            told = {"name": key, "value": repr(found.get(key)), "allowed": Kind.NUMBER_OF_ROWS()}
            raise UserError(Kind.SERIES_SETTING_REFUSED(**told))
    return found


def layout(config: dict) -> dict[str, np.ndarray]:
    """Return the window of rows of each input of a sample, for common/pair/windows.py."""
    rows, start, ahead = config["seq_len"], config["label_len"], config["pred_len"]
    windows = {
        "x_enc/values": (0, rows, 0, 0),
        "x_mark_enc/marks": (0, rows, 0, 0),
        "x_dec/values": (rows - start, start, ahead, config["padding"]),
        "x_mark_dec/marks": (rows - start, start + ahead, 0, 0),
        "labels/labels": (rows, ahead, 0, 0),
    }
    return {f"windows/{name}": np.array(what, np.int64) for name, what in windows.items()}


def read_series(path: Path) -> tuple[np.ndarray, list[str], np.ndarray]:
    """A CSV file's dates (T,), datetime64[s], names of its other columns, and values (T, F).

    Raises UserError with the line for what is no date or no number, and for dates that go back.
    """
    if path.is_dir():
        raise UserError(Kind.SERIES_IS_FOLDER(path=str(path)))
    dates, rows = [], []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            header = [name.strip() for name in next(lines, [])]
            lower = [name.lower() for name in header]
            if "date" not in lower or len(header) < 2:
                told = ", ".join(header[:8]) or Kind.NOTHING()
                raise UserError(Kind.SERIES_HEADER_REFUSED(path=str(path), names=told))
            at = lower.index("date")
            for row in lines:
                if not row:
                    continue
                if len(row) != len(header):
                    told = {"line": lines.line_num, "cells": len(row), "columns": len(header)}
                    raise UserError(Kind.SERIES_CELLS_DIFFER(path=str(path), **told))
                dates.append(_date(path, lines.line_num, row.pop(at)))
                rows.append([_number(path, lines.line_num, cell) for cell in row])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(Kind.SERIES_NO_CSV(path=str(path), error=str(error))) from None
    if not rows:
        raise UserError(Kind.SERIES_EMPTY(path=str(path)))
    times = np.array(dates, "datetime64[s]")
    back = np.flatnonzero(np.diff(times) <= np.timedelta64(0, "s"))
    if back.size:
        told = {"date": str(times[back[0] + 1]), "former": str(times[back[0]])}
        raise UserError(Kind.SERIES_GOES_BACK(path=str(path), row=back[0] + 2, **told))
    return times, [name for i, name in enumerate(header) if i != at], np.array(rows)


def _date(path: Path, line: int, text: str) -> str:
    found = _DATE.fullmatch(text.strip())
    with suppress(ValueError):
        if found:
            return datetime.datetime(*(int(part or 0) for part in found.groups())).isoformat()
    raise UserError(Kind.SERIES_NO_DATE(path=str(path), line=line, cell=text[:40]))


def _number(path: Path, line: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    raise UserError(Kind.SERIES_NO_NUMBER(path=str(path), line=line, cell=cell[:40]))


def chosen_columns(
    path: Path, values: np.ndarray, names: list[str], config: dict, split: str
) -> tuple[np.ndarray, list[str]]:
    """The columns that `features` takes; the target is the last of them."""
    target = config["target"]
    if target not in names:
        told = {"target": target, "names": ", ".join(names)}
        raise UserError(Kind.SERIES_WITHOUT_TARGET(path=str(path), **told))
    order = [i for i, name in enumerate(names) if name != target] + [names.index(target)]
    if config["features"] == "S":
        order = order[-1:]
    elif split != "share":
        order = list(range(len(names)))  # the reference leaves ETT's columns as they are
        if config["features"] == "MS" and names[-1] != target:
            raise UserError(Kind.SERIES_TARGET_NOT_LAST(path=str(path), target=target))
    return values[:, order], [names[i] for i in order]


def uneven(dates: np.ndarray) -> list[str]:
    """A note where rows are not equally far apart: a gap is no error, but seldom meant."""
    steps = np.diff(dates).astype(np.int64)
    usual = int(np.median(steps)) if steps.size else 0
    other = np.flatnonzero(steps != usual)
    if not other.size or usual >= 28 * 86400:  # months and years differ in length
        return []
    told = {"count": other.size, "seconds": usual, "date": str(dates[other[0] + 1])}
    return [Kind.SERIES_UNEVEN(**told)]


def borders(path: Path, rows: int, split: str, seq_len: int) -> dict[str, tuple[int, int]]:
    """Part -> its first row and the row behind its last."""
    if split == "share":
        train, test = int(rows * 0.7), int(rows * 0.2)
        ends = {"train": (0, train), "validation": (train, rows - test)}
        ends |= {"test": (rows - test, rows)}
    else:
        ends, first = {}, 0
        for part, months in _MONTHS.items():
            end = first + months * _MONTH * _ROWS_OF_HOUR[split]
            ends[part], first = (first, end), end
        if first > rows:
            raise UserError(Kind.SERIES_TOO_SHORT(path=str(path), rows=rows, needed=first))
    return {
        part: (max(0, first - seq_len) if part != "train" else first, end)
        for part, (first, end) in ends.items()
    }


def scaler(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each column's mean and deviation (of the sample); that of a constant column is 1."""
    deviation = values.std(axis=0)
    return values.mean(axis=0), np.where(deviation > 0.0, deviation, 1.0)


def marks(dates: np.ndarray, freq: str, embed: str) -> np.ndarray:
    """Return the dates as features within ±0.5 (T, columns), or as rows of tables, int64."""
    parts = parts_of(dates)
    if embed != "timeF":
        columns = [parts[name] for name in _TABLES]
        columns += [parts["minute"] // 15] if freq in ("t", "s") else []
        return np.stack(columns, axis=1)
    ranges = {name: _RANGES[name] for name in FEATURES[freq]}
    columns = [(parts[name] - first) / length - 0.5 for name, (first, length) in ranges.items()]
    return np.stack(columns, axis=1)


def parts_of(dates: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of dates (T,), datetime64[s], by name, each (T,) int64; Monday is weekday 0."""
    days = dates.astype("datetime64[D]")
    months, years = dates.astype("datetime64[M]"), dates.astype("datetime64[Y]")
    seconds = (dates - days).astype(np.int64)
    number = days.astype(np.int64)  # since a Thursday
    known, which = np.unique(number, return_inverse=True)
    weeks = [
        (datetime.date(1970, 1, 1) + datetime.timedelta(int(n))).isocalendar()[1] for n in known
    ]
    return {
        "second": seconds % 60,
        "minute": seconds // 60 % 60,
        "hour": seconds // 3600,
        "weekday": (number + 3) % 7,
        "day": (days - months).astype(np.int64) + 1,
        "day_of_year": (days - years).astype(np.int64) + 1,
        "week": np.array(weeks, np.int64)[which],
        "month": (months - years).astype(np.int64) + 1,
    }


SOURCE = Source(
    Kind.SERIES(),
    Kind.SERIES_OF_ETT(),
    "seasons.csv",
    ("split", "default"),
    build,
    has_text=False,
)
