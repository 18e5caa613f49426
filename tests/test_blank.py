"""Models built without the values that their weights overwrite: all else is as if drawn.

Each constructor is built both ways on both sides and loaded with the same weights; then all that a
model holds must have the same bits.
"""

import importlib
from functools import cache

import numpy as np
import pytest
from builders import write_pair

from twincheck.common.pair.pairs import Case, load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.sides import building
from twincheck.common.sides.job import Job
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Session, using
from twincheck.common.sides.shared_weights import make_weights
from twincheck.common.system.frameworks import SIDES

CASE = """
import numpy as np
CONFIGS = {"default": {}}
def make_inputs(config, seed):
    return {"x": np.ones((2, 3, 8), np.float32)}
"""
TORCH = """
import torch
from torch import nn
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
def keep(model, name, value, saved):
    model.register_buffer(name, value, persistent=saved)
def fill(weight):
    with torch.no_grad():
        weight.normal_(0.0, 0.02)
uniform, no_grad = torch.rand, torch.no_grad
Parameter = nn.Parameter
def arange(n):
    return torch.arange(float(n))
def freeze(weight):
    weight.requires_grad = False
def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
def draw_inside(weight):
    nn.init.trunc_normal_(weight); nn.init.orthogonal_(weight)
"""
PADDLE = """
import paddle
from paddle import nn
class Plain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
def keep(model, name, value, saved):
    model.register_buffer(name, value, persistable=saved)
def fill(weight):
    weight.set_value(paddle.normal(0.0, 0.02, weight.shape))
uniform, no_grad = paddle.rand, paddle.no_grad
def Parameter(value):
    return paddle.create_parameter(
        value.shape, value.dtype, default_initializer=nn.initializer.Assign(value)
    )
def arange(n):
    return paddle.arange(float(n))
def freeze(weight):
    weight.stop_gradient = True
def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
def draw_inside(weight):
    nn.initializer.TruncatedNormal()(weight); nn.initializer.KaimingUniform()(weight)
"""
BUILD = """
def build(config):
    model = Plain()
    weight = model.second.weight
{}
    return model
"""
# What a constructor does -> its lines, and the sides that build it blank.
BOTH = SIDES
KINDS = {
    "linear": ("", BOTH),
    "filled": ("fill(weight)\ndraw_inside(model.first.weight)", BOTH),
    "computed_saved": ("keep(model, 'table', arange(8) * 0.5, True)", BOTH),
    "tied": ("model.first.weight = weight", BOTH),
    "padding": ("model.words = nn.Embedding(9, 8, padding_idx=0)", BOTH),
    "lstm": ("model.rnn = nn.LSTM(8, 8)", ("torch",)),  # Paddle's joins its weights in one
    "attention": ("model.encoder = encoder()", BOTH),
    "length": ("model.length = Parameter((weight.detach() ** 2).sum(0))", ("torch",)),
    "drawn_buffer": ("keep(model, 'table', uniform([8]), False)", ()),
    "drawn_saved": ("keep(model, 'table', uniform([8]), True)", ()),
    "of_weight": ("keep(model, 'table', weight.detach() * 2.0, False)", ()),
    "attribute": ("model.table = [weight.detach() * 2.0]", ()),
    "numpy": ("model.number = weight.detach().numpy().copy()", ()),
    "branch": ("if bool((weight > 0).any()):\n    keep(model, 'table', arange(4), False)", ()),
    "frozen": ("freeze(weight)", ()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pair for each kind of constructor."""
    base = tmp_path_factory.mktemp("blank")
    for kind, (lines, _) in KINDS.items():
        body = BUILD.format("\n".join(f"    {line}" for line in lines.splitlines()))
        write_pair(base / kind, CASE, TORCH + body, PADDLE + body)
    return base


@cache
def of(side: str):
    return importlib.import_module(f"twincheck.common.sides.backend_{side}").side


def built(folder, kind: str, side: str, dtype: str, least: int, monkeypatch):
    """Return what a loaded model holds, and whether it was built blank: from `least` values on."""
    work = folder / kind / "work"
    work.mkdir(exist_ok=True)
    pair, case = load_pair(str(folder / kind)), Case("", {"kind": kind})
    told = (None, RunRequest(str(pair.folder)), pair, [case], "", work, "")
    jobs = {name: Job(of(name), "forward", *told) for name in ("torch", side)}
    monkeypatch.setattr(building, "BLANK_FROM", least)
    make_weights(jobs["torch"])
    of(side).set_up(dtype, "cpu", 0)
    session = Session(0, record=lambda key, values: None)
    try:
        with using(session):
            run = Run(jobs[side], case, dtype, session)
            before = len(run.job.drawn)
            model = run.build()
            held = {f"state/{k}": v for k, v in run.side.state(model).items()}
            buffers = [(k, v) for k, v in model.named_buffers() if "_dropout_state" not in k]
            held |= {f"buffer/{key}": run.side.array(value) for key, value in buffers}
            held |= {f"built/{k}": v for k, v in run.made.items()}
            for name in ("table", "number"):
                value = vars(model).get(name)
                value = value[0] if isinstance(value, list) else value
                if value is not None:
                    held[name] = run.side.array(value) if run.side.is_tensor(value) else value
            logged = {}
            session.record = lambda key, values: logged.setdefault(key, values)
            run.log_constants()
            held |= {f"logged/{key}": value for key, value in logged.items()}
            return {k: np.asarray(v).copy() for k, v in held.items()}, len(run.job.drawn) == before
    finally:
        of(side).set_up("float32", "cpu", 0)


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_built_blank_holds_what_it_holds_otherwise(folder, kind, side, monkeypatch):
    for dtype in ("float32", "float64"):
        drawn, _ = built(folder, kind, side, dtype, 1 << 40, monkeypatch)
        held, blank = built(folder, kind, side, dtype, 0, monkeypatch)
        assert drawn.keys() == held.keys() and blank == (side in KINDS[kind][1])
        assert [key for key in drawn if drawn[key].tobytes() != held[key].tobytes()] == []


@pytest.mark.parametrize("side", SIDES)
def test_a_small_model_is_drawn_and_a_large_one_is_not(folder, side, monkeypatch):
    """Counts the models that are built blank."""
    blanks = importlib.import_module(f"twincheck.common.sides.blank_in_{side}").Blanks
    entered, enter, usual = [], blanks.__enter__, building.BLANK_FROM
    monkeypatch.setattr(blanks, "__enter__", lambda self: entered.append(1) or enter(self))
    for least, is_blank in ((0, True), (usual, False)):
        entered.clear()
        built(folder, "linear", side, "float32", least, monkeypatch)
        assert bool(entered) == is_blank
