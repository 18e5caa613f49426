"""Faults in models of everyday size: the catalogue, and what the command says without libraries."""

import ast
import re
import sys

import numpy as np
import pytest
from checkout import ROOT

from faults import everyday
from faults.everyday_catalogue import FAULTS, PRELUDE


def test_the_catalogue_is_what_it_says():
    assert len(FAULTS) >= 15 and len({fault.id for fault in FAULTS}) == len(FAULTS)
    in_steps = [fault for fault in FAULTS if re.search(r"/\d{3}/", fault.origins[0])]
    assert len(in_steps) >= 6 and {fault.step for fault in in_steps} == {4}
    for fault in FAULTS:
        text = (ROOT / fault.model / "paddle_model.py").read_text()
        planted = ast.parse(fault.planted(text))
        assert len(planted.body) > len(ast.parse(text + PRELUDE).body)


def test_a_row_of_the_same_tensor_is_its_place_and_no_other():
    fault = next(fault for fault in FAULTS if fault.id == "resnet-sgd-step-7")
    key = "sgd/007/weight/network.layer3.0.conv1.weight"
    assert fault.named(key) and fault.named(f"{key}:sums") and fault.named(f"perturbed/{key}")
    assert not fault.named(f"{key}s") and not fault.named("sgd/006/weight/network.layer3.0.conv1")
    assert not fault.named(None)


def updates(code, monkeypatch, kind, lr=0.5):
    """Weights after each of ten steps of Paddle's optimizer, under a fault's code."""
    import paddle

    from twincheck.common.sides import paddle_side
    from twincheck.common.sides.optimizer import Optimizer

    for name in ("__init__", "step", "clip"):
        monkeypatch.setattr(Optimizer, name, getattr(Optimizer, name))
    exec(f"build = None\n{PRELUDE}\n{code}", {"__name__": "planted"})
    value = paddle.create_parameter([4, 3], "float32")
    value.set_value(np.linspace(1.0, 2.0, 12, dtype="float32").reshape(4, 3))
    found = []
    optimizer = paddle_side.Optimizer([("w", value)], kind, lr, lambda step: 1.0)
    for _ in range(10):
        value.grad = paddle.ones([4, 3])
        optimizer.step()
        found.append(value.numpy().copy())
    monkeypatch.undo()
    return np.array(found)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_one_element_of_one_step_is_planted_and_nothing_else(monkeypatch, kind):
    right = updates("", monkeypatch, kind)
    other = "adam" if kind == "sgd" else "sgd"
    of_other = updates(f"update_scaled({other!r}, 7, 'w', (2, 1), 0.0)", monkeypatch, kind)
    assert (of_other == right).all()
    wrong = updates(f"update_scaled({kind!r}, 7, 'w', (2, 1), 0.0)", monkeypatch, kind)
    assert (wrong[:7] == right[:7]).all()
    assert wrong[7, 2, 1] == right[6, 2, 1] != right[7, 2, 1]
    moved = np.argwhere(~np.isclose(wrong[7], right[7], rtol=1e-6, atol=0.0))
    assert moved.tolist() == [[2, 1]]


def test_what_lacks_its_libraries_is_skipped_and_told_and_is_no_pass(capsys):
    assert everyday.main(["--torch-python", sys.executable]) == 2
    told = capsys.readouterr()
    for model, library in (("torchvision_paddle_vision", "torchvision"), ("bert", "paddlenlp")):
        assert any(
            line.startswith("skipped: ") and model in line and f"has no {library}" in line
            for line in told.out.splitlines()
        )
    assert "nothing was planted" in told.err


def test_a_fault_that_is_none_is_refused(capsys):
    assert everyday.main(["--only", "resnet-gelu"]) == 2
    assert "resnet-gelu: no such fault; --list shows them" in capsys.readouterr().err
