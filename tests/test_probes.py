"""Probes see whatever a user's model may take and return, and leave it as it was."""

import copy
import shutil
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from checkout import Checkout

from common.system.tree import join_path, tree_leaves, tree_map

ODD = Path(__file__).parent / "pairs" / "odd"
Pair = namedtuple("Pair", "first second")


@dataclass(frozen=True)
class Frozen:
    value: object
    other: object = None


class Output(OrderedDict):
    """Items and attributes are one, as in transformers' ModelOutput."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


def is_leaf(value):
    return isinstance(value, np.ndarray)


def nest():
    """One of each container, with what is no tensor between them."""
    output = Output()
    output["logits"] = np.zeros(2)
    output["hidden"] = (np.ones(1), None, [np.full(3, 2.0)])
    return {
        "output": output,
        "pair": Pair(np.arange(2), {"deep": np.arange(3)}),
        "frozen": Frozen(np.arange(4), "text"),
        "user": UserDict(x=np.arange(5)),
        "default": defaultdict(list, x=np.arange(6)),
        7: [1, True, None],
    }


def test_every_leaf_has_a_path():
    paths = [join_path(path) for path, _ in tree_leaves(nest(), is_leaf)]
    assert paths == [
        "output/logits",
        "output/hidden/0",
        "output/hidden/2/0",
        "pair/first",
        "pair/second/deep",
        "frozen/value",
        "user/x",
        "default/x",
    ]


def test_containers_come_back_as_what_they_were():
    before = nest()
    after = tree_map(before, lambda path, value: value + 1, is_leaf)
    assert type(after["output"]) is Output
    assert after["output"].logits is after["output"]["logits"]
    assert type(after["pair"]) is Pair and after["pair"].first.tolist() == [1, 2]
    assert type(after["frozen"]) is Frozen and after["frozen"].other == "text"
    assert type(after["user"]) is UserDict and type(after["default"]) is defaultdict
    assert after["default"].default_factory is list
    for (_, new), (_, old) in zip(
        tree_leaves(after, is_leaf), tree_leaves(nest(), is_leaf), strict=True
    ):
        np.testing.assert_array_equal(new, old + 1)
    for (_, kept), (_, old) in zip(
        tree_leaves(before, is_leaf), tree_leaves(nest(), is_leaf), strict=True
    ):
        np.testing.assert_array_equal(kept, old)


def test_what_does_not_change_is_the_very_object():
    before = nest()
    assert tree_map(before, lambda path, value: value, is_leaf) is before
    changed = tree_map(
        before, lambda path, value: copy.copy(value) if path[0] == "pair" else value, is_leaf
    )
    assert changed is not before and changed["output"] is before["output"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy whose step 4 takes two optimizer steps instead of ten: they are not what is tried."""
    made = Checkout(tmp_path_factory.mktemp("probes"))
    made.replace("step4_backward/setups.py", "STEPS = 10", "STEPS = 2")
    return made


def test_step_1_logs_keywords_and_what_is_nested(checkout):
    done, report = checkout.rows(1, "--model", str(ODD), "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    keys = {row["key"] for row in report["rows"]}
    for key in (
        "layers.0:in/x",
        "layers.0.inner:in/0/states",
        "layers.0.inner:in/0/extra/bias",
        "layers.0.inner.attend:in/keep",
        "layers.0.inner.attend:in/bias",
        "layers.0.inner.attend/2",
        "layers.0.inner/second",
        "layers.0/hidden_states/1",
        "layers.0.norm#2",
        "kept/0",
        "state/extra/view",
    ):
        assert key in keys, key
    assert "layers.0.norm:in/input#2" not in keys, "called by keyword on one side alone"
    assert "by place and not by keyword" in done.stdout


def test_step_1_finds_a_fault_behind_all_of_it(checkout, tmp_path):
    """The teacher-forced run puts the reference's values into the same containers."""
    spoilt = shutil.copytree(ODD, tmp_path / "odd")
    text = (spoilt / "paddle_model.py").read_text()
    assert "Pair(z + z," in text
    (spoilt / "paddle_model.py").write_text(text.replace("Pair(z + z,", "Pair(z + 1.001 * z,"))
    done, report = checkout.rows(1, "--model", str(spoilt), "--no-report")
    assert done.returncode == 1, done.stdout + done.stderr
    red = [row["key"] for row in report["rows"] if row["verdict"] == "DIVERGED"]
    first = "layers.0.inner/first"
    assert red == [first, f"perturbed/{first}"], "everything behind it is CARRIED"


def test_step_4_differentiates_through_all_of_it(checkout):
    done, report = checkout.rows(4, "--model", str(ODD), "--no-report", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    keys = {row["key"] for row in report["rows"]}
    assert "grad_of/layers.0.inner.act" in keys
    assert "grad_of/layers.0.inner.act:in/0" not in keys, "torch writes into that tensor"
    assert "grad_of/layers.0.inner.attend:in/bias" in keys
