"""Probes see whatever a user's model may take and return, and leave it as it was."""

import pytest
from builders import copied, ended, translated

from twincheck.common.sides.probes import hook_inputs

ODD = translated(  # but for the layer that works in place, and a keyword
    "odd",
    ("nn.ReLU(inplace=True)", "nn.ReLU()"),
    ("Pair(z + y,", "Pair(z + z,"),
    ("self.norm(input=a)", "self.norm(a)"),
)


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
    assert red == [f"{case}{first}" for case in ("", "perturbed/", "edges/")], "CARRIED is behind"


def test_step_4_differentiates_through_all_of_it(checkout):
    done, report = ended(0, checkout.rows(4, "--model", str(ODD), "--no-report", "--seed", "1"))
    keys = {row["key"] for row in report["rows"]}
    assert "grad_of/layers.0.inner.act" in keys
    assert "grad_of/layers.0.inner.act:in/0" not in keys, "torch writes into that tensor"
    assert "grad_of/layers.0.inner.attend:in/bias" in keys
