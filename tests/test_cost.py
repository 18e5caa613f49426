"""What makes a check cheaper changes nothing that it says."""

import numpy as np
import pytest
from builders import write_log

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sums import SMALLEST
from twincheck.common.system import processes
from twincheck.common.verdict.judge import judge_logs


@pytest.mark.parametrize("how", [{"summing": True}, {"limit": 10**5}, {}])
def test_large_booleans_take_a_byte_each_in_logs_of_sums(tmp_path, how):
    """And one that is off is found at its place, beside logs that have them in eight bytes."""
    mask = np.arange(SMALLEST).reshape(2, -1) % 3 == 0
    wrong = mask.copy()
    wrong[1, 77] ^= True
    found = []
    for cand, more in ((mask, how), (mask, {}), (wrong, how), (wrong, {})):
        paths = {}
        for name, values in (("ref32", mask), ("cand32", cand), ("ref64", mask), ("cand64", cand)):
            paths[name] = tmp_path / f"{name}.npy"
            arrays = {"mask": values, "few": values[0, :5], "first": np.full(SMALLEST, 0.5)}
            side = "torch" if "ref" in name else "paddle"
            told = {"side": side, "dtype": f"float{name[-2:]}", "batches": {"": 2}}
            write_log(paths[name], arrays, told, **(how if side == "torch" else more))
        with read_log(paths["ref32"]) as log:
            assert log["mask"].dtype == (np.int8 if how else np.int64)
            assert log["few"].dtype == np.int64
        found.append(judge_logs(**paths).rows[0])
    assert [row.verdict for row in found] == ["IDENTICAL", "IDENTICAL", "DIVERGED", "DIVERGED"]
    assert [(row.worst_index, row.beyond) for row in found[2:]] == [((1, 77), 1)] * 2


@pytest.mark.parametrize(
    ("name", "ours"), [("OMP_WAIT_POLICY", "PASSIVE"), ("MALLOC_MMAP_MAX_", "0")]
)
def test_a_workers_variable_is_what_the_user_says_it_is(monkeypatch, name, ours):
    monkeypatch.delenv(name, raising=False)
    assert processes.environment()[name] == ours
    monkeypatch.setenv(name, "theirs")
    assert processes.environment()[name] == "theirs"
