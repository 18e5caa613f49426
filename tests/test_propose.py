"""What is proposed of RENAME and `convert` is right where a guess by name, order or class is wrong;
what nothing tells apart is left open; and a wrong proposal, written into case.py, is found.

Tiny twins, a line or two a layer: the same class on both sides but for what the case is about.
"""

import textwrap

import numpy as np
import pytest
from checkout import Checkout

from common.setup.propose import Proposal, of_pair
from common.setup.rename import shortest
from common.setup.source import convert_source, rename_source
from common.weights.layers import make_rename

CASE = """
import numpy as np
CONFIGS = {"default": {}}
def make_inputs(config, seed):
    return {"x": np.random.default_rng(seed).standard_normal((2, 5, 8))}
"""
HEAD = {
    "torch": """
import torch
from torch import nn
from torch.nn import functional as F
Base, empty, concat = nn.Module, torch.empty, torch.cat
def parameter(module, *shape):
    return nn.Parameter(torch.randn(*shape))
def square_matrix(n):
    return nn.Linear(n, n)
def swapped(x):
    return x.transpose(-1, -2)
def softmax(x):
    return torch.softmax(x, dim=-1)
""",
    "paddle": """
import paddle
from paddle import nn
from paddle.nn import functional as F
Base, concat = nn.Layer, paddle.concat
def parameter(module, *shape):
    return module.create_parameter(shape, default_initializer=nn.initializer.Normal())
def swapped(x):
    return x.transpose([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
def softmax(x):
    return F.softmax(x, axis=-1)
""",
}
ATTENTION = """
def heads(x, count):  # (B, T, C) -> (B, count, T, D)
    b, t, c = x.shape
    return swapped(x.reshape([b, t, count, c // count]).moveaxis(2, 3)).moveaxis(1, 2).moveaxis(2, 3) \
        if False else x.reshape([b, t, count, c // count]).moveaxis(2, 1)
def attend(q, k, v, count, shared=1):
    q, k, v = heads(q, count), heads(k, count // shared), heads(v, count // shared)
    k, v = ([part[:, i // shared] for i in range(count)] for part in (k, v))
    outs = [softmax(q[:, i] @ swapped(k[i])) @ v[i] for i in range(count)]
    return concat(outs, -1)
def per_group(fused, groups, sizes):  # each group's queries, then its key, then its value
    b, t, c = fused.shape
    runs = fused.reshape([b, t, groups, c // groups])
    parts, start = [], 0
    for size in sizes:
        parts.append(runs[:, :, :, start : start + size // groups].reshape([b, t, size]))
        start += size // groups
    return parts
"""


def net(init, forward, more=""):
    """The source of a model: lines of its __init__ and of its forward."""
    init, forward = (textwrap.indent(textwrap.dedent(text).strip(), " " * 8) for text in (init, forward))
    return f"""
{ATTENTION}{more}
class Net(Base):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, x):
{forward}
def build(config):
    return Net()
"""


@pytest.fixture
def pair(tmp_path):
    """Writes a pair of two sources; returns its folder."""

    def write(torch, paddle, case=CASE):
        folder = tmp_path / "pair"
        folder.mkdir(exist_ok=True)
        (folder / "case.py").write_text(case)
        (folder / "torch_model.py").write_text(HEAD["torch"] + torch)
        (folder / "paddle_model.py").write_text(HEAD["paddle"] + paddle)
        return folder

    return write


@pytest.fixture
def propose(pair, request):
    """The proposal for two sources."""

    def of(torch, paddle) -> Proposal:
        python = request.config.warm_python
        return of_pair(pair(torch, paddle), python, python)

    return of


def converted(proposal, state):
    """What the proposed convert makes of a state."""
    made = {"np": np}
    exec(proposal.convert, made)
    return made["convert"](state)


def numbered(**shapes):
    """A state whose values are all unlike."""
    rng = np.random.default_rng(0)
    return {key.replace("__", "."): rng.standard_normal(shape) for key, shape in shapes.items()}


LINEARS = """
    self.first = nn.Linear(8, 8)
    self.second = nn.Linear(8, 8)
"""


def test_names_and_order_of_construction_that_mislead(propose):
    """Paddle's `first` runs last: two equal layers, one behind the other."""
    proposal = propose(
        net(LINEARS, "return self.second(F.relu(self.first(x)))"),
        net(LINEARS, "return self.first(F.relu(self.second(x)))"),
    )
    assert proposal.rename == {"first": "second", "second": "first"}
    assert not proposal.open


QKV = """
    self.query = nn.Linear(8, 8)
    self.key = nn.Linear(8, 8)
    self.value = nn.Linear(8, 8)
    self.out = nn.Linear(8, 8)
"""


@pytest.mark.parametrize(
    ("q", "k", "v"), [("key", "query", "value"), ("value", "query", "key"), ("query", "key", "value")]
)
def test_q_k_and_v_whose_names_mislead(propose, q, k, v):
    torch = "return self.out(attend(self.query(x), self.key(x), self.value(x), 2))"
    paddle = f"return self.out(attend(self.{q}(x), self.{k}(x), self.{v}(x), 2))"
    proposal = propose(net(QKV, torch), net(QKV, paddle))
    names = {q: "query", k: "key", v: "value"}
    assert proposal.rename == {mine: its for mine, its in names.items() if mine != its}
    assert not proposal.open
    assert sum("not the other way round" in proof for proof in proposal.proofs) == 3


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("order", ["qkv", "vqk"])
def test_q_k_and_v_in_one(propose, groups, order):
    """In thirds, or per key-value head, of grouped queries; in any order."""
    torch = """
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 4)
        self.v = nn.Linear(8, 4)
        self.out = nn.Linear(8, 8)
    """
    paddle = """
        self.fused = nn.Linear(8, 16)
        self.out = nn.Linear(8, 8)
    """
    sizes = [{"q": 8, "k": 4, "v": 4}[name] for name in order]
    cut = f"{', '.join(order)} = per_group(self.fused(x), {groups}, {sizes})"
    proposal = propose(
        net(torch, "return self.out(attend(self.q(x), self.k(x), self.v(x), 4, 2))"),
        net(paddle, f"{cut}\nreturn self.out(attend(q, k, v, 4, 2))"),
    )
    assert not proposal.open
    state = numbered(q__weight=(8, 8), k__weight=(4, 8), v__weight=(4, 8), q__bias=8, k__bias=4, v__bias=4)
    made = converted(proposal, state)
    parts = [state[f"{name}.weight"].reshape(groups, -1, 8) for name in order]
    assert np.array_equal(made["fused.weight"], np.concatenate(parts, 1).reshape(16, 8).T)
    parts = [state[f"{name}.bias"].reshape(groups, -1) for name in order]
    assert np.array_equal(made["fused.bias"], np.concatenate(parts, 1).reshape(16))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("up_first", [False, True])
def test_gate_and_up_in_one(propose, interleaved, up_first):
    torch = """
        self.gate = nn.Linear(8, 6)
        self.up = nn.Linear(8, 6)
        self.down = nn.Linear(6, 8)
    """
    paddle = """
        self.fused = nn.Linear(8, 12)
        self.down = nn.Linear(6, 8)
    """
    halves = "y[:, :, 0::2], y[:, :, 1::2]" if interleaved else "y[:, :, :6], y[:, :, 6:]"
    names = ["up", "gate"] if up_first else ["gate", "up"]
    forward = f"y = self.fused(x)\n{', '.join(names)} = {halves}\nreturn self.down(F.silu(gate) * up)"
    proposal = propose(
        net(torch, "return self.down(F.silu(self.gate(x)) * self.up(x))"), net(paddle, forward)
    )
    assert not proposal.open
    state = numbered(gate__weight=(6, 8), up__weight=(6, 8), gate__bias=6, up__bias=6)
    parts = [state[f"{name}.weight"] for name in names]
    right = np.stack(parts, 1).reshape(12, 8) if interleaved else np.concatenate(parts)
    assert np.array_equal(converted(proposal, state)["fused.weight"], right.T)


def test_one_weight_that_is_cut(propose):
    """GPT-2's Conv1D keeps (in, out), and q, k and v in one; all of Paddle's weights are square."""
    conv1d = """
class Conv1D(Base):
    def __init__(self, n, m):
        super().__init__()
        self.weight = parameter(self, n, m)
        self.bias = parameter(self, m)
    def forward(self, x):
        return x @ self.weight + self.bias
"""
    torch = "self.c_attn = Conv1D(8, 24)\nself.c_proj = Conv1D(8, 8)"
    forward = "q, k, v = per_group(self.c_attn(x), 1, [8, 8, 8])\nreturn self.c_proj(attend(q, k, v, 2))"
    paddle = "return self.out(attend(self.query(x), self.key(x), self.value(x), 2))"
    proposal = propose(net(torch, forward, conv1d), net(QKV, paddle))
    assert not proposal.open, proposal.open
    state = numbered(c_attn__weight=(8, 24), c_attn__bias=24, c_proj__weight=(8, 8))
    made = converted(proposal, state)
    assert np.array_equal(made["key.weight"], state["c_attn.weight"][:, 8:16])
    assert np.array_equal(made["value.bias"], state["c_attn.bias"][16:])
    assert np.array_equal(made["out.weight"], state["c_proj.weight"])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_square_weight_is_turned_by_values_not_by_its_class(propose, keeps):
    """An own class named Linear that keeps torch's (out, in), as paddle.compat's, or does not."""
    own = f"""
class Linear(Base):
    def __init__(self):
        super().__init__()
        self.weight = parameter(self, 8, 8)
    def forward(self, x):
        return x @ {'swapped(self.weight)' if keeps else 'self.weight'}
"""
    proposal = propose(
        net("self.dense = nn.Linear(8, 8, bias=False)", "return self.dense(x)"),
        net("self.dense = Linear()", "return self.dense(x)", own),
    )
    assert not proposal.open
    if keeps:
        assert not proposal.convert
        return
    state = numbered(dense__weight=(8, 8))
    assert np.array_equal(converted(proposal, state)["dense.weight"], state["dense.weight"].T)


def test_a_raw_square_parameter_is_turned_by_values(propose):
    proposal = propose(
        net("self.w = parameter(self, 8, 8)", "return x @ self.w"),
        net("self.w = parameter(self, 8, 8)", "return x @ swapped(self.w)"),
    )
    assert not proposal.open
    state = numbered(w=(8, 8))
    assert np.array_equal(converted(proposal, state)["w"], state["w"].T)


def test_raw_parameters_of_one_shape_whose_names_mislead(propose):
    init = "self.scale = parameter(self, 8)\nself.shift = parameter(self, 8)"
    proposal = propose(
        net(init, "return x * self.scale + self.shift"), net(init, "return x * self.shift + self.scale")
    )
    assert proposal.rename == {"scale": "shift", "shift": "scale"}
    assert not proposal.open


def test_a_mean_for_a_variance(propose):
    """A norm of one's own, whose buffers' names mislead."""
    own = """
class Norm(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", {ones}([8]))
        self.register_buffer("var", {ones}([8]))
    def forward(self, x):
        return (x - self.{mean}) / (self.{var} ** 2 + 1.0) ** 0.5
"""
    proposal = propose(
        net("self.norm = Norm()", "return self.norm(x)", own.format(ones="torch.ones", mean="mean", var="var")),
        net("self.norm = Norm()", "return self.norm(x)", own.format(ones="paddle.ones", mean="var", var="mean")),
    )
    assert proposal.rename == {"norm.mean": "norm.var", "norm.var": "norm.mean"}


def test_two_layers_that_nothing_tells_apart_are_left_open(propose):
    sides = "self.{0} = nn.Linear(8, 8)\nself.{1} = nn.Linear(8, 8)"
    proposal = propose(
        net(sides.format("one", "other"), "return self.one(x) + self.other(x)"),
        net(sides.format("left", "right"), "return self.left(x) + self.right(x)"),
    )
    assert any("left and right: nothing in this pass tells them apart" in text for text in proposal.open)


def test_tied_on_one_side_alone_is_left_open(propose):
    init = "self.one = nn.Linear(8, 8)\nself.other = nn.Linear(8, 8)\n"
    forward = "return self.other(F.relu(self.one(x)))"
    tied = net(init + "self.other.weight = self.one.weight", forward)
    proposal = propose(tied, net(init, forward))
    assert any("are tied in torch" in text for text in proposal.open), proposal.open


def test_what_one_side_alone_has_is_left_open(propose):
    init = "self.one = nn.Linear(8, 8)\n"
    proposal = propose(
        net(init + "self.unused = nn.Linear(8, 3)", "return self.one(x)"), net(init, "return self.one(x)")
    )
    assert any("unused" in text for text in proposal.open)


def test_a_shared_layer_and_one_that_is_never_called(propose):
    torch = "self.shared = nn.Linear(8, 8)\nself.last = nn.Linear(8, 8)\nself.unused = nn.Linear(8, 4)"
    paddle = torch.replace("shared", "a").replace("last", "b").replace("unused", "c")
    proposal = propose(
        net(torch, "return self.last(self.shared(F.relu(self.shared(x))))"),
        net(paddle, "return self.b(self.a(F.relu(self.a(x))))"),
    )
    assert proposal.rename == {"a": "shared", "b": "last", "c": "unused"}
    assert not proposal.open


def test_layers_that_keep_several_weights(propose):
    """LSTM, BatchNorm's statistics, and a parameter that is a buffer on the other side."""
    init = """
        self.rnn = nn.LSTM(8, 6, {first})
        self.bn = nn.BatchNorm1{d}(5)
        self.scale = parameter(self, 6)
    """
    forward = "return self.bn(self.rnn(x)[0]) * self.scale"
    paddle = init.format(first="", d="D").replace("self.rnn", "self.lstm").replace("self.bn", "self.norm")
    paddle = paddle.replace(
        "self.scale = parameter(self, 6)", 'self.register_buffer("gain", paddle.ones([6]))'
    )
    proposal = propose(
        net(init.format(first="batch_first=True", d="d"), forward),
        net(paddle, "return self.norm(self.lstm(x)[0]) * self.gain"),
    )
    assert proposal.rename == {"gain": "scale", "lstm": "rnn", "norm": "bn"}
    assert not proposal.open


def test_projections_in_torch_s_multihead_attention(propose):
    paddle = "return self.out(attend(self.query(x), self.key(x), self.value(x), 2) * 1.0)"
    paddle = paddle.replace("self.query(x)", "(self.query(x) / 2.0)")  # 1 / sqrt(D), of D = 4
    proposal = propose(
        net("self.attn = nn.MultiheadAttention(8, 2, batch_first=True)", "return self.attn(x, x, x)[0]"),
        net(QKV, paddle),
    )
    assert make_rename(proposal.rename)("query.weight") == "attn.q_proj.weight"
    assert make_rename(proposal.rename)("out.weight") == "attn.out_proj.weight"
