"""Probes see whatever a user's model may take and return, and leave it as it was."""

import copy
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from builders import copied, ended, translated

from twincheck.common.sides.probes import hook_inputs
from twincheck.common.system.tree import join_path, tree_leaves, tree_map

ODD = translated(  # but for the layer that works in place, and a keyword
    "odd",
    ("nn.ReLU(inplace=True)", "nn.ReLU()"),
    ("Pair(z + y,", "Pair(z + z,"),
    ("self.norm(input=a)", "self.norm(a)"),
)
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
    expected = "output/logits output/hidden/0 output/hidden/2/0 pair/first pair/second/deep"
    assert paths == f"{expected} frozen/value user/x default/x".split()


def test_containers_come_back_as_what_they_were():
    before = nest()
    after = tree_map(before, lambda path, value: value + 1, is_leaf)
    assert type(after["output"]) is Output
    assert after["output"].logits is after["output"]["logits"]
    assert type(after["pair"]) is Pair and after["pair"].first.tolist() == [1, 2]
    assert type(after["frozen"]) is Frozen and after["frozen"].other == "text"
    assert type(after["user"]) is UserDict and type(after["default"]) is defaultdict
    assert after["default"].default_factory is list
    trees = (tree_leaves(tree, is_leaf) for tree in (after, before, nest()))
    for (_, new), (_, kept), (_, old) in zip(*trees, strict=True):
        np.testing.assert_array_equal(new, old + 1)
        np.testing.assert_array_equal(kept, old)


def test_what_does_not_change_is_the_very_object():
    before = nest()
    assert tree_map(before, lambda path, value: value, is_leaf) is before

    def copied(path, value):
        return copy.copy(value) if path[0] == "pair" else value

    changed = tree_map(before, copied, is_leaf)
    assert changed is not before and changed["output"] is before["output"]


class Plain:
    """A module whose hooks take no keywords, as those of Paddle 2.6."""

    def register_forward_pre_hook(self, hook):
        raise AssertionError("not this way: the keywords would be missing")

    def forward(self, x, scale=1):
        """x scaled"""
        return x * scale


@pytest.mark.parametrize("own", [False, True])
def test_hooks_see_keywords_where_the_frameworks_do_not(own):
    module, seen = Plain(), []
    if own:
        vars(module)["forward"] = lambda x, scale=1: -x * scale
    before = module.forward
    handle = hook_inputs(module, lambda m, inputs, keywords: seen.append((inputs, keywords)))
    sign = -1 if own else 1
    assert module.forward(2, scale=5) == sign * 10
    assert seen == [((2,), {"scale": 5})]
    handle.remove()
    handle = hook_inputs(module, lambda m, inputs, keywords: ((inputs[0] + 1,), {"scale": 7}))
    assert module.forward(2, scale=5) == sign * 21
    handle.remove()
    assert module.forward == before


KEYS = """
layers.0:in/x layers.0.inner:in/0/states layers.0.inner:in/0/extra/bias kept/0 state/extra/view
layers.0.inner.attend:in/keep layers.0.inner.attend:in/bias layers.0.inner.attend/2
layers.0.inner/second layers.0/hidden_states/1 layers.0.norm#2
"""


def test_step_1_logs_keywords_and_what_is_nested(checkout):
    done, report = ended(0, checkout.rows(1, "--model", str(ODD), "--no-report"))
    keys = {row["key"] for row in report["rows"]}
    assert set(KEYS.split()) <= keys, set(KEYS.split()) - keys
    assert "layers.0.norm:in/input#2" not in keys, "called by keyword on one side alone"
    assert "by place and not by keyword" in done.stdout


def test_step_1_finds_a_fault_behind_all_of_it(checkout, tmp_path):
    """The teacher-forced run puts the reference's values into the same containers."""
    spoilt = copied(ODD, tmp_path, ("Pair(z + z,", "Pair(z + 1.001 * z,"))
    done, report = ended(1, checkout.rows(1, "--model", str(spoilt), "--no-report"))
    red = [row["key"] for row in report["rows"] if row["verdict"] == "DIVERGED"]
    first = "layers.0.inner/first"
    assert red == [first, f"perturbed/{first}"], "everything behind it is CARRIED"


def test_step_4_differentiates_through_all_of_it(checkout):
    done, report = ended(0, checkout.rows(4, "--model", str(ODD), "--no-report", "--seed", "1"))
    keys = {row["key"] for row in report["rows"]}
    assert "grad_of/layers.0.inner.act" in keys
    assert "grad_of/layers.0.inner.act:in/0" not in keys, "torch writes into that tensor"
    assert "grad_of/layers.0.inner.attend:in/bias" in keys
