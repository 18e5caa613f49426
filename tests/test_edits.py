"""Edits are proposed where they follow from what was found, and nowhere else."""

import inspect

import paddle
import pytest
import torch

from twincheck.common.report.edits import PLACES, SAME, edits_of

EPSILON = {"name": "epsilon", "torch": 1e-5, "paddle": 1e-12, "wanted": 1e-5}
RATE = {"name": "rate", "torch": 0.1, "paddle": 0.5, "wanted": 0.1}
MOMENTUM = {"name": "momentum", "torch": 0.1, "paddle": 0.1, "wanted": 0.9}
TANH = {"name": "tanh form", "torch": "on", "paddle": "off", "wanted": "on"}
GROUPS = {"name": "number of groups", "torch": 2.0, "paddle": 4.0, "wanted": 2.0}


def proposed(tmp_path, source: str, name: str, *settings, torch="", line=1, **more) -> list[str]:
    """The new lines that are proposed for a Paddle file of this text."""
    path = tmp_path / "paddle_model.py"
    path.write_text(source)
    paddle = {"file": str(path), "line": line, "class": name, "lines": []}
    finding = {"verdict": "DIVERGED", "key": "main/a", "settings": list(settings)}
    finding |= {"paddle": paddle, "torch": paddle | {"class": torch or name}}
    edits = edits_of(finding | more)
    assert all(edit["old"] == source.split("\n")[edit["line"] - 1] for edit in edits)
    assert all(edit["file"] == str(path) for edit in edits)
    return [edit["new"] for edit in edits]


@pytest.mark.parametrize(
    ("old", "name", "settings", "new"),
    [
        ("LayerNorm(8, epsilon=1e-12)", "LayerNorm", [EPSILON], "LayerNorm(8, epsilon=1e-05)"),
        ("LayerNorm(8, 1e-12)", "LayerNorm", [EPSILON], "LayerNorm(8, 1e-05)"),
        ("LayerNorm(8)", "LayerNorm", [EPSILON], "LayerNorm(8, epsilon=1e-05)"),
        ("Dropout()", "Dropout", [RATE], "Dropout(p=0.1)"),
        ("Dropout(0.5, mode='x')", "Dropout", [RATE], "Dropout(0.1, mode='x')"),
        ("GELU()", "GELU", [TANH], "GELU(approximate=True)"),
        ("GELU(approximate=False)", "GELU", [TANH], "GELU(approximate=True)"),
        ("GroupNorm(4, 8)", "GroupNorm", [GROUPS], "GroupNorm(2, 8)"),
        (
            "BatchNorm1D(8, momentum=0.1, epsilon=1e-12)",
            "BatchNorm1D",
            [EPSILON, MOMENTUM],
            "BatchNorm1D(8, momentum=0.9, epsilon=1e-05)",
        ),
        ("BatchNorm1D(8)", "BatchNorm1D", [MOMENTUM], "BatchNorm1D(8, momentum=0.9)"),
    ],
)
def test_a_setting_is_edited_where_its_value_stands(tmp_path, old, name, settings, new):
    assert proposed(tmp_path, f"é = [nn.{old}, 1]\n", name, *settings) == [f"é = [nn.{new}, 1]"]


@pytest.mark.parametrize(
    ("source", "name", "setting"),
    [
        ("nn.LayerNorm(8, epsilon=epsilon)", "LayerNorm", EPSILON),  # stands elsewhere
        ("nn.LayerNorm(8, epsilon=1e-6)", "LayerNorm", EPSILON),  # is not what was found
        ("nn.LayerNorm(8), nn.LayerNorm(8)", "LayerNorm", EPSILON),  # which of them?
        ("nn.LayerNorm(*sizes)", "LayerNorm", EPSILON),
        ("nn.LayerNorm(8, **more)", "LayerNorm", EPSILON),
        ("Norm(8)", "LayerNorm", EPSILON),
        ("nn.InstanceNorm1D(8)", "InstanceNorm1D", EPSILON),  # its argument's place is not known
        ("nn.Conv2D(2, 4, 4)", "Conv2D", GROUPS),
        ("nn.LayerNorm(8", "LayerNorm", EPSILON),  # no Python
        ("nn.LayerNorm(\n8\n)", "LayerNorm", EPSILON),
        ("x = 1", "LayerNorm", EPSILON),
    ],
)
def test_nothing_is_guessed(tmp_path, source, name, setting):
    assert proposed(tmp_path, source, name, setting) == []


def test_a_layer_that_is_built_elsewhere_is_edited_where_the_file_has_one_with_that_value(tmp_path):
    used = "n = nn.LayerNorm(8, epsilon=1e-12)\ny = n(x)\n"
    new = "n = nn.LayerNorm(8, epsilon=1e-05)"
    assert proposed(tmp_path, used, "LayerNorm", EPSILON, line=2) == [new]
    assert proposed(tmp_path, used + "nn.LayerNorm(4)\n", "LayerNorm", EPSILON, line=2) == [new]
    twice = used + "nn.LayerNorm(4, epsilon=1e-12)\n"
    assert proposed(tmp_path, twice, "LayerNorm", EPSILON, line=2) == []
    default = used.replace(", epsilon=1e-12", "")
    assert proposed(tmp_path, default, "LayerNorm", EPSILON, line=2) == []
    assert proposed(tmp_path, default, "LayerNorm", EPSILON, line=1) == [new]


def test_an_activation_of_another_class_is_edited_where_it_is_built_once(tmp_path):
    built = "net = Sequential(nn.ReLU(), nn.Linear(2, 2))\ny = net(x)\n"
    told = dict(torch="GELU", line=2)
    new = "net = Sequential(nn.GELU(), nn.Linear(2, 2))"
    assert proposed(tmp_path, built, "ReLU", **told) == [new]
    assert proposed(tmp_path, built + "nn.ReLU()\n", "ReLU", **told) == []
    assert proposed(tmp_path, built, "ReLU", **told, key="main/a:in/0") == []
    assert proposed(tmp_path, built, "ReLU", **told, verdict="PRECISION") == []
    assert proposed(tmp_path, built, "ReLU", torch="MyActivation") == []
    assert proposed(tmp_path, built, "Linear", torch="GELU") == []
    assert proposed(tmp_path, built.replace("ReLU()", "ReLU(True)"), "ReLU", **told) == []


def test_the_table_of_arguments_and_activations_is_the_frameworks():
    for nn in (torch.nn, paddle.nn):
        assert [name for name in SAME if not hasattr(nn, name)] == []
    for (name, argument), place in PLACES.items():
        takes = list(inspect.signature(getattr(paddle.nn, name).__init__).parameters)
        assert takes.index(argument) - 1 == place, name
