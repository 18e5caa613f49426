"""Layers in each form that models call them in, and how they are built; what fails is whose."""

import json
from pathlib import Path

import pytest
from builders import Checked, a_case, a_net, write_pair
from checkout import change

from twincheck.common.logs.reader import read_log
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import is_ours


def pair(folder: Path, torch: str, config: object, shape: tuple, *changed: tuple) -> Path:
    """A pair of torch's model and the same in Paddle; in a side of `changed` a text is another."""
    write_pair(folder, a_case(f'"x": rng.standard_normal({shape})', {"default": config}), torch)
    for side, old, new in changed:
        change(folder / f"{side}_model.py", old, new)
    return folder


def found_by(step: int, folder: Path, *options: str, root=ROOT) -> tuple[Checked, list[dict]]:
    """A check of a pair, and its findings."""
    found = Checked(step, folder, folder / "out", options, root)
    return found, json.loads((folder / "out" / "rows.json").read_text())["findings"]


# ---- a batch norm, however it is called ----------------------------------------------------------

NORMS = a_net(
    """
    self.three, self.two, self.one = nn.BatchNorm3d(4), nn.BatchNorm2d(4), nn.BatchNorm1d(4)
    self.called = lambda bn, x: F.batch_norm(
        x, bn.running_mean, bn.running_var, bn.weight, bn.bias, training=self.training
    )
    """,
    """
    x = torch.tanh(self.three(x)).mean(2)
    x = torch.tanh(self.two(x)).mean(2)
    return self.one(x)
    """,
    "(outputs * outputs).mean()",
)
SHAPE = (3, 4, 2, 3, 5)
STATISTICS = {f"train/{n}:running_{s}" for n in ("one", "two", "three") for s in ("mean", "var")}


def forms(side: str, *norms: str) -> list[tuple]:
    """Changes of a side, where these norms are called by their function, and others' forward."""
    names = ("three", "two", "one")
    forms = {n: "self.called(self.{}, x)" if n in norms else "self.{}.forward(x)" for n in names}
    return [(side, f"self.{name}(x)", form.format(name)) for name, form in forms.items()]


@pytest.mark.slow
@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_a_batch_norm_may_be_called_by_its_function_or_its_forward(tmp_path, side):
    changed = forms(side, "three", "one") if side == "torch" else forms(side, "two")
    right, _ = found_by(1, pair(tmp_path / "right", NORMS, {}, SHAPE, *changed))
    assert right.status == 0 and STATISTICS <= right.rows.keys(), right.said
    for key in STATISTICS:
        assert right.rows[key]["verdict"] in ("CONSTANT", "ROUNDING", "IDENTICAL")


@pytest.mark.slow
def test_another_momentum_is_found_where_a_batch_norm_is_called_by_its_function(tmp_path):
    other = "paddle", "training=self.training", "training=self.training, momentum=0.8"
    changed = [*forms("paddle", "two"), other]
    wrong, _ = found_by(1, pair(tmp_path / "wrong", NORMS, {}, SHAPE, *changed))
    off = {key for key, row in wrong.rows.items() if row["verdict"] == "DIVERGED"}
    assert wrong.status == 1 and off == {"train/two:running_mean", "train/two:running_var"}


@pytest.mark.slow
def test_what_is_converted_before_it_is_compared_is_said(tmp_path):
    """The variance of Paddle's lacks n / (n - 1): with the factor, and both values."""
    folder = pair(tmp_path / "pair", NORMS, {}, SHAPE)
    found, _ = found_by(1, folder)
    (told,) = json.loads((folder / "out" / "rows.json").read_text())["guide"]
    one = told["variances"]["train/one:running_var"]
    with read_log(found.files.log("forward_all", "torch")) as log:
        compared = float(log["train/one:running_var"].mean())
    assert one["n"] == 15 and one["held"] < 0.9995 * one["compared"]
    assert one["compared"] == pytest.approx(compared, rel=1e-5)
    assert "in 3 rows, such as train/one:running_var (n = 15, a factor of 1.0714" in found.said


# ---- one cause, one finding, at the line to look at ----------------------------------------------

CONFORMER = """import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def forward(self, x):
        return (x - x.mean(-1, True)) / torch.sqrt(torch.var(x, -1, False, True) + 1e-5)


class Attention(nn.Module):
    def __init__(self, width, dropout=0.0):
        super().__init__()
        self.all, self.drop = nn.Linear(width, 3 * width), nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = torch.chunk(self.all(x), 3, -1)
        return self.drop(F.softmax(q.matmul(k.mT), -1).matmul(v))


class Block(nn.Module):
    def __init__(self, width, attn_dropout=0.0, ff_dropout=0.0):
        super().__init__()
        self.before, self.after = Norm(), Norm()
        self.attn = Attention(width, attn_dropout)
        self.ff = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(ff_dropout))

    def forward(self, x):
        x = x + self.attn(self.before(x))
        return x + self.ff(self.after(x))


class Net(nn.Module):
    def __init__(self, width, attn_dropout=0.0, ff_dropout=0.0):
        super().__init__()
        self.layers = nn.ModuleList([Block(width) for _ in range(2)])
        self.last = Norm()

    def forward(self, x):
        for block in self.layers:
            x = block(x)
        return self.last(x)


def build(config):
    return Net(8, **config)
"""


def line(text: str) -> int:
    return 1 + next(i for i, one in enumerate(CONFORMER.splitlines()) if text in one)


@pytest.mark.slow
def test_a_setting_s_mistake_is_where_the_argument_is_handed_on(tmp_path):
    """As in a published Conformer: the reference takes a dropout that its blocks never get."""
    on = "paddle", "Block(width)", "Block(width, attn_dropout=attn_dropout)"
    folder = pair(tmp_path / "handed", CONFORMER, {"attn_dropout": 0.1}, (2, 6, 8), on)
    found, (only,) = found_by(1, folder)
    assert found.status == 1 and only["sentence"] == (
        "Dropout's rate is 0 in torch and 0.1 in Paddle"
    )
    assert {only[side]["line"] for side in ("torch", "paddle")} == {line("Block(width)")}
    assert "missing" not in found.said and "which torch has with rate 0" in found.said
    assert found.rows["train/layers.0.attn.dropout:p"]["verdict"] == "DIVERGED"
    # Where the layer itself is built with it, that is the line.
    other = "paddle", "nn.Dropout(dropout)", "nn.Dropout(0.2)"
    _, (only,) = found_by(1, pair(tmp_path / "built", CONFORMER, {}, (2, 6, 8), other))
    assert {only[side]["line"] for side in ("torch", "paddle")} == {line("nn.Dropout(dropout)")}


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 4])
def test_one_mistake_in_a_class_is_one_finding_that_lists_its_places(checkout, tmp_path, step):
    wrong = "paddle", "torch.var(x, -1, False".replace("torch", "paddle"), "paddle.var(x, -1, True"
    texts = CONFORMER + "\n\ndef loss(outputs, inputs):\n    return (outputs**2 * outputs).mean()\n"
    folder = pair(tmp_path / "norms", texts, {}, (2, 6, 8), wrong)
    options = ("--mode", "eval", "--case", "main")
    found, (only,) = found_by(step, folder, *options, root=checkout.root)
    places = {only["key"], *(further["key"] for further in only["further"])}
    assert found.status == 1 and {"layers.0.before", "layers.1.after", "last"} <= places
    assert only["paddle"]["line"] == line("torch.var(x, -1, False")


# ---- whose a crash is ----------------------------------------------------------------------------


def raised(text: str, file: str) -> Exception:
    with pytest.raises(Exception) as caught:
        exec(compile(text, file, "exec"), {})
    return caught.value


@pytest.mark.parametrize(
    ("text", "file", "ours"),
    [
        ("().index(0)", "common/sides/batch_norm.py", True),
        ("raise ValueError('k is 0')", "common/sides/instruments.py", False),  # it says so
        ("().index(0)", "common/models/reformer/torch_model.py", False),
        ("().index(0)", "common/system/intercept.py", False),  # what it calls
        ("open('/no such file')", "common/logs/writer.py", False),
    ],
)
def test_whose_an_error_is(text, file, ours):
    assert is_ours(raised(text, f"{ROOT}/{file}")) is ours
    assert not is_ours(raised(text, f"/home/user/{file}"))


@pytest.mark.parametrize("step", [1, 4])
def test_a_crash_of_the_workbench_is_told_as_its_own_in_any_step(checkout, tmp_path, step):
    """In train mode, where a check adds that mode: before, it was a remark beside ALIGNED."""
    folder = pair(tmp_path / "pair", NORMS, {}, SHAPE)
    file, text = checkout.path("common/sides/batch_norm.py"), "math.prod(value.shape)"
    whole = file.read_text()
    change(file, text, "math.prod(value.shapes)")
    try:
        done = checkout.check(step, "--model", str(folder), "--no-report")
    finally:
        file.write_text(whole)
    said = done.stdout + done.stderr
    assert done.returncode == 2 and "an error of twincheck itself, not of pair" in said, said
    assert "batch_norm.py:" in said and "please report it" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def build(config)", "def built(config)", "has no build(config): define it"),
        ("def build(config)", "def build()", "build is called as build(config)"),
        ("return Net(**config)", "Net(**config)", "build returns a NoneType, no model of torch's"),
    ],
)
def test_what_a_pair_s_own_functions_lack_is_the_user_s(tmp_path, old, new, said):
    found = Checked(1, pair(tmp_path / "pair", NORMS.replace(old, new), {}, SHAPE), tmp_path)
    assert found.status == 2 and said in found.said and "twincheck itself" not in found.said
