"""States that one process leaves for another: large ones only while a check runs, and mapped."""

from pathlib import Path

import numpy as np
import pytest

from twincheck.common.check.reuse import why_not_reused
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import write_json
from twincheck.common.weights import states
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.states import States


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


def test_a_large_state_comes_back_as_it_was_and_a_tied_array_lies_there_once(tmp_path):
    """The newest one counts; who has mapped a former one keeps that, and another stays."""
    first, path, other = some_arrays(), tmp_path / "a" / "main.npz", tmp_path / "a" / "other.npz"
    for where in (path, other):
        States(tmp_path / "large").save(where, first)
    found = States(tmp_path / "large").load(path)
    assert same(found, first) and not found["weight"].flags.writeable
    assert np.shares_memory(found["weight"], found["tied"])
    assert isinstance(found["weight"].base, np.memmap)
    second = {"weight": np.arange(9000.0)}
    States(tmp_path / "large").save(path, second)
    assert same(States(tmp_path / "large").load(path), second) and same(found, first)
    assert same(States(tmp_path / "large").load(other), first)


def test_small_states_are_files_and_large_ones_are_not(tmp_path):
    folder, passing = ResultFolder(tmp_path), tmp_path / ".states"
    small, large = {"bias": np.ones(3)}, some_arrays()
    owners = {"bias": Owner("Linear", "bias", (3,), True, "bias")}
    folder.weights("a").parent.mkdir()
    for arrays, kept in ((small, True), (large, False), (small, True), (large, False)):
        States(passing).save(folder.weights("a"), arrays, owners)
        assert folder.weights("a").is_file() == kept
        assert same(States(passing).load(folder.weights("a")), arrays)
        assert folder.without_weights() == ([] if kept else ["a"])
    # Found from another folder of the same run too, and in a file where all is kept.
    assert same(States(passing).load(tmp_path / "trial" / "weights" / "a.npz"), large)
    States(None).save(folder.weights("a"), large)
    assert folder.without_weights() == [] and same(States(None).load(folder.weights("a")), large)


def test_what_went_with_its_check_is_one_sentence(tmp_path):
    for gone in (tmp_path / "gone", None):
        with pytest.raises(UserError, match="main.npz: there is no such file.*--keep all"):
            States(gone).load(Path("weights/main.npz"))


def test_logs_without_their_weights_are_not_reused(tmp_path):
    (tmp_path / "weights").mkdir()
    write_json(ResultFolder(tmp_path).reference_key(), {})
    assert "--keep all" not in why_not_reused(tmp_path, {})
    (tmp_path / "weights" / "main.json").write_text("{}")
    assert "--keep all" in why_not_reused(tmp_path, {})
