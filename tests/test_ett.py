"""The source of series: times and scales by pandas and scikit-learn."""

import numpy as np
import pandas
import pytest

from twincheck.common.models.informer.case import CONFIGS, DATA
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.sources import ett, prepare
from twincheck.common.pair.sources.request import SourceRequest
from twincheck.common.pair.windows import part_of
from twincheck.common.system.checkout import FAKE_DATA
from twincheck.common.system.errors import UserError
from twincheck.step2_metric.series_opinion import first_samples, marks

SEASONS = FAKE_DATA / "seasons.csv"


def built(path, config, split="share"):
    settings = {"source": "ett", "split": split}
    return ett.build(SourceRequest(path, settings, config, 0, None, lambda text: None))


@pytest.mark.parametrize("split", ["hour", "minute"])
def test_parts_are_months_of_thirty_days(split, tmp_path):
    rows = 30 * 24 * 20 * (4 if split == "minute" else 1) + 50
    path = tmp_path / "series.csv"
    dates = pandas.date_range("2016-07-01", periods=rows, freq="15min" if "m" in split else "h")
    values = np.arange(rows) % 97
    pandas.DataFrame({"date": dates, "a": values, "OT": values[::-1]}).to_csv(path, index=False)
    config = CONFIGS["default"] | {"freq": "15min"}
    parts = ett.borders(path, rows, split, 24)
    month = 30 * 24 * (4 if split == "minute" else 1)
    assert parts["validation"] == (12 * month - 24, 16 * month)
    made = built(path, config, split)
    assert made.arrays["series/marks"].shape == (rows, 5)
    train = np.stack([values, values[::-1]], axis=1)[: 12 * month].astype(float)
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit(train).transform(train)
    assert np.allclose(made.arrays["series/values"][: 12 * month], scaled, atol=1e-12)
    with pytest.raises(UserError, match="its 20 months of 30 days are"):
        ett.borders(path, 1000, split, 24)


@pytest.mark.parametrize("change", [
    {},
    {"features": "S"},
    {"features": "MS", "target": "load_b", "padding": 1},
    {"inverse": True, "embed": "fixed"},
    {"embed": "learned", "freq": "t"},
    {"label_len": 0},
])  # fmt: skip
def test_samples_are_those_that_pandas_and_scikit_learn_cut(change):
    config = CONFIGS["default"] | change
    arrays = built(SEASONS, config).arrays
    found, wanted = part_of(arrays, "test"), first_samples(SEASONS, config, "share", 3)
    for name, expected in wanted.items():
        assert np.allclose(np.asarray(found[name][:3]), expected, atol=1e-12), name
    if change.get("inverse"):
        scaled = np.asarray(part_of(built(SEASONS, CONFIGS["default"]).arrays, "test")["labels"])
        back = scaled * found["target_std"][:, None] + found["target_mean"][:, None]
        assert np.allclose(back, np.asarray(found["labels"]), atol=1e-12)
    last = found["labels"][len(found["labels"]) - 1]
    assert np.array_equal(last, arrays["series/labels"][1440 - 6 : 1440])  # the very last rows


OFFSETS = {"s": "s", "t": "min", "h": "h", "d": "D", "b": "B", "w": "7D", "m": "ME", "a": "YE"}


@pytest.mark.parametrize("freq", OFFSETS)
def test_times_of_every_frequency_are_pandas_own(freq):
    dates = pandas.date_range("2019-12-20 22:58:58", periods=400, freq=OFFSETS[freq]).to_series()
    expected = marks(dates.dt, {"embed": "timeF", "freq": freq})
    times = dates.to_numpy().astype("datetime64[s]")
    assert np.allclose(ett.marks(times, freq, "timeF"), expected, atol=1e-15)


@pytest.mark.parametrize("text, sentence", [
    ("", "its first line must name a column date"),
    ("time,a\n1,2\n", "its first line must name a column date .* it has time, a"),
    ("date,OT\n", "there is no row below"),
    ("date,OT\n2016-07-01,1\n2016-13-01,2\n", "line 3: '2016-13-01' is no date"),
    ("date,OT\n2016-07-01,1\n2016-07-02,x\n", "line 3: 'x' is no number"),
    ("date,OT\n2016-07-01,1\n2016-07-02,1,2\n", "line 3: 3 cells; the first line names 2"),
    ("date,OT\n2016-07-02,1\n2016-07-01,2\n", "dates must go on from row to row; row 2 is"),
    ("date,a\n2016-07-01,1\n2016-07-02,2\n", "target is 'OT'; it has a"),
    ("date,OT\n2016-07-01,1\n2016-07-02,2\n", "its train part has 1 rows; a sample takes 24"),
])  # fmt: skip
def test_a_file_that_is_wrong_is_a_sentence(text, sentence, tmp_path):
    path = tmp_path / "series.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        built(path, CONFIGS["default"])


def test_the_preset_of_steps_2_and_5_reads_its_own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNMENT_DATA", str(tmp_path))
    made = prepare(load_pair("informer"), "seasons", None, 0)
    assert "seasons.csv: 1,440 rows of load_a, load_b, load_c, OT" in made.notes[0]
    with pytest.raises(UserError, match="ETDataset.*fake_data/seasons.csv is a small one"):
        prepare(load_pair("informer"), "etth1_m_24", None, 0)
    assert {*DATA, "default"} == set(CONFIGS)


def test_gaps_and_other_dates_are_read(tmp_path):
    path = tmp_path / "series.csv"
    rows = [f"2016/7/{1 + i // 24} {i % 24}:00,{i % 7},{i % 5}" for i in range(200) if i != 90]
    path.write_text("\n".join(["Date,OT,b", *rows]) + "\n")
    dates, names, values = ett.read_series(path)
    assert names == ["OT", "b"] and values.shape == (199, 2) and str(dates[1]).endswith("01:00:00")
    assert (
        "1 rows are not 3,600 s after the row before, first 2016-07-04T19" in ett.uneven(dates)[0]
    )
    config = CONFIGS["default"]
    made = built(path, config)
    names = made.notes[0].split("rows of ")[1]
    assert names.startswith("b, OT")  # the target is the last column


def test_a_data_file_is_built_anew_where_its_builders_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNMENT_DATA", str(tmp_path))
    pair, again = load_pair("informer"), "made from the same source before"
    assert again not in prepare(pair, "seasons", None, 0).notes[-1]
    assert again in prepare(pair, "seasons", None, 0).notes[-1]
    monkeypatch.setattr(
        "twincheck.common.pair.sources.cache.builders_sha256", lambda folder: "others"
    )
    assert again not in prepare(pair, "seasons", None, 0).notes[-1]
