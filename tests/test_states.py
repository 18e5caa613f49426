"""States that one process leaves for another: large ones in memory, small ones in files."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT

from twincheck.common.check.reuse import why_not_reused
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system import shared_arrays
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import write_json
from twincheck.common.system.shared_arrays import shared_file
from twincheck.common.weights import states
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.states import States


@pytest.fixture
def shared():
    """The address of a file of memory."""
    with shared_file() as address:
        yield address


@pytest.fixture(autouse=True)
def kilobytes(monkeypatch):
    """What is large here: more than 1 KB."""
    monkeypatch.setattr(states, "LARGE_BYTES", 1 << 10)


def some_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((40, 30)).astype(np.float32)
    return {
        "weight": weight,
        "tied": weight,
        "turned": weight.T,
        "flags": np.array([True, False, True]),
        "count": np.array(7),
        "none": np.zeros((0, 3)),
        "wide": np.arange(5.0),
    }


def same(found: dict, expected: dict) -> bool:
    return list(found) == list(expected) and all(
        found[k].dtype == v.dtype and found[k].shape == v.shape and (found[k] == v).all()
        for k, v in expected.items()
    )


def test_arrays_come_back_as_they_were_and_a_tied_one_lies_there_once(shared):
    arrays = some_arrays()
    assert shared_arrays.append(shared, "weights/main", arrays)
    found = shared_arrays.read(shared, "weights/main")
    assert same(found, arrays)
    assert np.shares_memory(found["weight"], found["tied"])
    assert not found["weight"].flags.writeable
    assert shared_arrays.read(shared, "weights/other") is None


def test_the_newest_group_of_a_name_counts_and_others_stay(shared):
    first, second = {"a": np.arange(9.0)}, {"a": np.arange(3)}
    for name, arrays in (("one", first), ("two", first), ("one", second)):
        assert shared_arrays.append(shared, name, arrays)
    assert same(shared_arrays.read(shared, "one"), second)
    assert same(shared_arrays.read(shared, "two"), first)


def test_an_address_leads_to_no_other_file(tmp_path, shared):
    """Plants what becomes of a process's number and its descriptor's: they name another file."""
    other = tmp_path / "other"
    other.write_bytes(b"of somebody else")
    token = shared.rpartition("#")[2]
    for path in (other, tmp_path / "none"):
        assert not shared_arrays.append(f"{path}#{token}", "main", some_arrays())
        assert shared_arrays.read(f"{path}#{token}", "main") is None
    assert other.read_bytes() == b"of somebody else"


@pytest.mark.parametrize("cut", [5000, 9000])
def test_a_file_that_is_cut_short_is_one_sentence(tmp_path, shared, cut):
    path = Path("weights/main.npz")
    States(shared).save(path, some_arrays())
    file = os.open(shared.rpartition("#")[0], os.O_RDWR)
    os.ftruncate(file, os.fstat(file).st_size - cut)
    os.close(file)
    with pytest.raises(UserError) as error:
        States(shared).load(path)
    said = str(error.value)
    assert "main.npz" in said and "--keep all" in said and "\n" not in said


@pytest.mark.parametrize(
    "entry",
    [["<f4", [40, 31], 0], ["<f4", [40, 30], -64], ["|O", [1], 0], ["<f4", [-1], 0], 3],
)
def test_an_array_that_does_not_lie_in_its_group_is_refused(shared, monkeypatch, entry):
    own = shared_arrays.json.dumps

    def dumps(group):
        group["arrays"]["weight"] = entry
        return own(group)

    monkeypatch.setattr(shared_arrays.json, "dumps", dumps)
    shared_arrays.append(shared, "main", {"weight": some_arrays()["weight"]})
    with pytest.raises(ValueError, match="'weight'"):
        shared_arrays.read(shared, "main")


def test_small_states_are_files_and_large_ones_are_not(tmp_path, shared):
    folder = ResultFolder(tmp_path)
    small, large = {"bias": np.ones(3)}, some_arrays()
    owners = {"bias": Owner("Linear", "bias", (3,), True, "bias")}
    for arrays, kept in ((small, True), (large, False)):
        folder.weights("a").parent.mkdir(exist_ok=True)
        States(shared).save(folder.weights("a"), arrays, owners)
        assert folder.weights("a").is_file() == kept
        assert same(States(shared).load(folder.weights("a")), arrays)
        assert folder.without_weights() == ([] if kept else ["a"])
    # Found from another folder of the same run too, and in a file where all is kept.
    assert same(States(shared).load(tmp_path / "trial" / "weights" / "a.npz"), large)
    States(None).save(folder.weights("a"), large)
    assert folder.without_weights() == [] and same(States(None).load(folder.weights("a")), large)


def test_memory_that_is_gone_means_a_file(tmp_path):
    with shared_file() as address:
        pass
    path = tmp_path / "main.npz"
    with pytest.raises(UserError, match="--keep all"):
        States(address).load(path)
    States(address).save(path, some_arrays())
    assert same(States(address).load(path), some_arrays())


def test_logs_without_their_weights_are_not_reused(tmp_path):
    (tmp_path / "weights").mkdir()
    write_json(ResultFolder(tmp_path).reference_key(), {})
    assert "--keep all" not in why_not_reused(tmp_path, {})
    (tmp_path / "weights" / "main.json").write_text("{}")
    assert "--keep all" in why_not_reused(tmp_path, {})


def test_nothing_is_left_of_a_process_that_is_killed(tmp_path, monkeypatch):
    """Its worker goes on reading what it has mapped; then the memory is free."""
    script = (
        "import time, numpy as np\n"
        "from twincheck.common.system.shared_arrays import append, shared_file\n"
        "with shared_file() as address:\n"
        "    append(address, 'main', {'a': np.arange(1 << 16)})\n"
        "    print(address, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip()
        values = shared_arrays.read(address, "main")["a"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (values == np.arange(1 << 16)).all()
    for _ in range(100):
        if shared_arrays.read(address, "main") is None:
            return
        time.sleep(0.05)
    raise AssertionError("the file is still there")
