"""The samples behind a file's end: times by pandas, values by scikit-learn."""

import numpy as np
import pandas
import pytest

from twincheck.common.models.informer.case import CONFIGS
from twincheck.common.pair.sources import ett
from twincheck.common.pair.windows import part_of
from twincheck.common.system.checkout import FAKE_DATA
from twincheck.common.system.errors import UserError
from twincheck.extras.forecast.forecast import PART, following, samples

SEASONS = FAKE_DATA / "seasons.csv"
OFFSETS = {"s": "s", "t": "min", "h": "h", "d": "D", "b": "B", "w": "7D", "m": "ME", "a": "YE"}


@pytest.mark.parametrize("freq", OFFSETS)
def test_times_of_every_frequency_are_pandas_own(freq):
    dates = pandas.date_range("2019-12-20 22:58:58", periods=400, freq=OFFSETS[freq])
    times = dates.to_numpy().astype("datetime64[s]")
    later = following(times[-3], freq, 2)
    unit = "datetime64[D]" if freq in "ma" else "datetime64[s]"
    assert np.array_equal(later.astype(unit), times[-2:].astype(unit))


def test_the_sample_behind_the_end_and_the_last_with_its_truth():
    config = ett.told(CONFIGS["default"])
    dates, _, values = ett.read_series(SEASONS)
    arrays, later = samples(SEASONS, config, dates, values)
    sample = part_of(arrays, PART)
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit(values).transform(values)  # of all rows
    assert np.allclose(sample["x_enc"][1], scaled[-24:], atol=1e-12)
    assert np.allclose(sample["x_dec"][1][:12], scaled[-12:], atol=1e-12)
    assert not sample["x_dec"][1][12:].any() and len(sample["x_enc"]) == 2
    assert np.allclose(sample["x_enc"][0], scaled[-30:-6], atol=1e-12)
    assert np.array_equal(np.asarray(sample["labels"][0]), values[-6:])
    assert str(later[0]) == "2016-08-30T00:00:00" and len(later) == 6
    assert sample["x_mark_dec"].shape == (2, 18, 4)
    short, _ = samples(SEASONS, config, dates[:24], values[:24])
    assert len(part_of(short, PART)["x_enc"]) == 1
    with pytest.raises(UserError, match="23 rows; the model reads 24 of them"):
        samples(SEASONS, config, dates[:23], values[:23])
