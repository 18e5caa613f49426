"""A proposal of RENAME and `convert` is right where a guess by name, order or class is wrong, and
says what is open or differs.

Tiny workers, a line or two a layer: the same class on both sides but for what the case is about.
"""

import textwrap

import numpy as np
import pytest
from builders import write_pair

from twincheck.common.check.workers import Processes
from twincheck.common.sides.backend_paddle import side as paddle_side
from twincheck.common.sides.backend_torch import side as torch_side
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.tree import tree_leaves
from twincheck.common.weights.layers import Owner, make_rename
from twincheck.common.weights.layout import Layout
from twincheck.extras.new_pair.propose import of_pair
from twincheck.extras.new_pair.propose import propose as propose_of
from twincheck.extras.new_pair.rename import shortest
from twincheck.extras.new_pair.source import convert_source, rename_source
from twincheck.extras.new_pair.structure import Structure

CASE = """
import numpy as np
CONFIGS = {"default": {}}
def make_inputs(config, seed):
    return {"x": np.random.default_rng(seed).standard_normal((2, 5, 8))}
"""
SQUARE = CASE.replace("(2, 5, 8)", "(2, 8, 8)")  # as many places as channels
HEAD = {
    "torch": """
import torch
from torch import nn
from torch.nn import functional as F
Base, concat = nn.Module, torch.cat
def parameter(module, *shape):
    return nn.Parameter(torch.randn(*shape))
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
    return x.reshape([b, t, count, c // count]).moveaxis(2, 1)
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
    init, forward = (textwrap.indent(textwrap.dedent(t).strip(), " " * 8) for t in (init, forward))
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


@pytest.fixture(scope="module")
def processes():
    """Both sides' processes, which answer for one pair after another."""
    with Processes() as started:
        yield started


def written(folder, torch, paddle, case=CASE):
    """Write a pair of two sources; returns its folder."""
    return write_pair(folder, case, HEAD["torch"] + torch, HEAD["paddle"] + paddle)


@pytest.fixture
def propose(tmp_path, request, processes):
    """The proposal for two sources."""
    pythons = dict.fromkeys(SIDES, request.config.warm_python)
    return lambda *sources: of_pair(written(tmp_path, *sources), pythons, processes=processes)


def space_of(text):
    """Return the names that a source defines."""
    made = {"np": np}
    exec(text, made)
    return made


def agree(torch, paddle, case, proposal):
    """Return whether the port computes the reference's values with the weights carried over."""
    sides = {torch_side: torch, paddle_side: paddle}
    models = {s: space_of(HEAD[s.NAME] + source)["build"]({}) for s, source in sides.items()}
    owners = (side.owners(model) for side, model in models.items())
    convert = space_of(proposal.convert).get("convert")
    layout = Layout(*owners, proposal.rename, convert)
    rng = np.random.default_rng(7)
    state = {
        key: values * (1 + rng.random(values.shape).astype(values.dtype))  # a variance stays one
        for key, values in torch_side.state(models[torch_side]).items()
    }
    states = {torch_side: state, paddle_side: layout.to_paddle(state)}
    x = space_of(case)["make_inputs"]({}, 7)["x"]
    outs = []
    for side, model in models.items():
        side.load_state(model, states[side])
        model.eval()
        leaves = tree_leaves(model(side.tensor(x)), side.is_tensor)
        outs.append([side.array(leaf) for _, leaf in leaves])
    return all(
        theirs.shape == ours.shape and np.abs(theirs - ours).max() < 1e-4 * np.abs(theirs).max()
        for theirs, ours in zip(*outs, strict=True)
    )


# ---- what is right ------------------------------------------------------------------------------

RIGHT = []


def right(name, torch, paddle, case=CASE, rename=None):
    """Enter a pair whose whole proposal is to be found, of which this RENAME is told."""
    RIGHT.append(pytest.param(torch, paddle, case, rename, id=name))


LINEARS = "self.first = nn.Linear(8, 8)\nself.second = nn.Linear(8, 8)"
QKV = """
    self.query = nn.Linear(8, 8)
    self.key = nn.Linear(8, 8)
    self.value = nn.Linear(8, 8)
    self.out = nn.Linear(8, 8)
"""
OF_THREE = "return self.out(attend(self.query(x), self.key(x), self.value(x), 2))"
right(
    "q, k and v whose names mislead",
    net(QKV, OF_THREE),
    net(QKV, "return self.out(attend(self.key(x), self.query(x), self.value(x), 2))"),
    rename={"key": "query", "query": "key"},
)
IN_ONE_QKV = "self.qkv = {}\nself.out = nn.Linear(8, 8)"
OF_ONE = "q, k, v = per_group({}, 1, [8, 8, 8])\nreturn self.out(attend(q, k, v, 2))"
for where, case in (("oblong", CASE), ("square", SQUARE)):
    right(
        f"q, k and v of one kernel of 1, {where}",
        net(
            IN_ONE_QKV.format("nn.Conv1d(8, 24, 1)"), OF_ONE.format("swapped(self.qkv(swapped(x)))")
        ),
        net(QKV, OF_THREE),
        case,
    )
CONV1D = """
class Conv1D(Base):
    def __init__(self, n, m):
        super().__init__()
        self.weight = parameter(self, n, m)
        self.bias = parameter(self, m)
    def forward(self, x):
        return x @ self.weight + self.bias
"""
right(  # GPT-2's keeps (in, out), and q, k and v in one; all of Paddle's weights are square
    "one weight that is cut",
    net("self.qkv = Conv1D(8, 24)\nself.out = Conv1D(8, 8)", OF_ONE.format("self.qkv(x)"), CONV1D),
    net(QKV, OF_THREE),
)
right(  # no shape tells which way it lies
    "a square weight of an own layer",
    net("self.one = Conv1D(8, 8)", "return self.one(x)", CONV1D.replace("weight +", "weight.T +")),
    net("self.one = nn.Linear(8, 8)", "return self.one(x)"),
)
SCALES = "self.scale = parameter(self, 8)\nself.shift = parameter(self, 8)"
right(
    "raw parameters of one shape whose names mislead",
    net(SCALES, "return x * self.scale + self.shift"),
    net(SCALES, "return x * self.shift + self.scale"),
    rename={"scale": "shift", "shift": "scale"},
)
SHARED = "self.{} = nn.Linear(8, 8); self.{} = nn.Linear(8, 8); self.{} = nn.Linear(8, 4)"
right(
    "a shared layer and one that is never called",
    net(
        SHARED.format("shared", "last", "unused"),
        "return self.last(self.shared(F.relu(self.shared(x))))",
    ),
    net(SHARED.format("a", "b", "c"), "return self.b(self.a(F.relu(self.a(x))))"),
    rename={"a": "shared", "b": "last", "c": "unused"},
)
right(  # what arrives at each tells them apart
    "branches that are called in another order",
    net(LINEARS, "return self.first(x) * 2 + self.second(x * x)"),
    net(
        "self.left = nn.Linear(8, 8); self.right = nn.Linear(8, 8)",
        "y = self.right(x * x)\nreturn self.left(x) * 2 + y",
    ),
    rename={"left": "first", "right": "second"},
)
right(
    "layers that keep several weights, and a parameter that is a buffer on the other side",
    net(
        "self.rnn = nn.LSTM(8, 6, batch_first=True); self.bn = nn.BatchNorm1d(5)\n"
        "self.scale = parameter(self, 6)",
        "return self.bn(self.rnn(x)[0]) * self.scale",
    ),
    net(
        "self.lstm = nn.LSTM(8, 6); self.norm = nn.BatchNorm1D(5)\n"
        'self.register_buffer("gain", paddle.ones([6]))',
        "return self.norm(self.lstm(x)[0]) * self.gain",
    ),
    rename={"gain": "scale", "lstm": "rnn", "norm": "bn"},
)
MULTIHEAD = "self.attn = nn.MultiheadAttention(8, 2, batch_first=True)"
right(
    "projections in torch's multihead attention",
    net(MULTIHEAD, "return self.attn(x, x, x)[0]"),
    net(QKV, OF_THREE.replace("self.query(x)", "self.query(x) / 2.0")),  # 1 / sqrt(D), of D = 4
)
NORMED = "return self.norm(self.attn(x, x, x)[0])"
right(
    "a multihead attention that keeps its one weight",
    net(f"{MULTIHEAD}; self.norm = nn.LayerNorm(8)", NORMED),
    net(f"{MULTIHEAD}; self.norm = nn.LayerNorm(8)".replace("nn.M", "paddle.compat.nn.M"), NORMED),
    rename={},
)
RELU = "; self.first.register_forward_post_hook(lambda layer, given, gave: F.relu(gave))"
right(
    "a layer that computes more than its partner",
    net(LINEARS, "return self.second(F.relu(self.first(x)))"),
    net(LINEARS + RELU, "return self.second(self.first(x))"),
)
for axes, width, case, one in ((1, 6, CASE, "torch"), (3, 8, SQUARE, "paddle")):
    places = ", ".join(["..."] + ["None"] * (axes - 1)), ", ".join(["..."] + ["0"] * (axes - 1))
    by_conv = "return swapped(self.one(swapped(x)[{}])[{}])".format(*places)
    linear = net(f"self.one = nn.Linear(8, {width})", "return self.one(x)")
    conv = net(f"self.one = nn.Conv{axes}{'dD'[one == 'paddle']}(8, {width}, 1)", by_conv)
    both = (conv, linear) if one == "torch" else (linear, conv)
    right(f"{one}'s kernel of 1, {axes} axes, {width} wide", *both, case)
LAST = """
    self.one = nn.Conv1{0}(8, 8, 3, padding=1{1})
    self.norm = nn.BatchNorm1{0}(8{1})
"""
right(
    "channels last, with as many places as channels",
    net(LAST.format("d", ""), "return swapped(self.norm(self.one(swapped(x))))"),
    net(LAST.format("D", ", data_format='NLC'"), "return self.norm(self.one(x))"),
    SQUARE,
)
OWN_CONV = """
class Conv(Base):
    def __init__(self):
        super().__init__()
        self.weight = parameter(self, 8, 8, 3)
        self.bias = parameter(self, 8)
    def forward(self, x):
        return swapped(F.conv1d(swapped(x), self.weight, self.bias, padding=1))
"""
LAST_LAYER = "; self.last = nn.Linear(8, 6)"
right(  # its values alone say so
    "an own layer of channels last",
    net("self.one = Conv()" + LAST_LAYER, "return self.last(F.relu(self.one(x)))", OWN_CONV),
    net(
        f"self.one = nn.Conv1D(8, 8, 3, padding=1){LAST_LAYER}",
        "return self.last(F.relu(swapped(self.one(swapped(x)))))",
    ),
    SQUARE,
)
FOURIER = """
class Fourier(Base):
    def __init__(self):
        super().__init__()
        {init}
        self.bias = parameter(self, {width})
    def forward(self, x):
        return 2 * (x @ {re}) + x**2 @ {im} + self.bias
"""
IN_ONE = {
    "init": "self.w = parameter(self, 8, {0}, 2)",
    "re": "self.w[..., 0]",
    "im": "self.w[..., 1]",
}
IN_TWO = {
    "init": "self.a = parameter(self, 8, {0}); self.b = parameter(self, 8, {0})",
    "re": "self.b",
    "im": "self.a",
}
for width, ways in ((6, (IN_ONE, IN_TWO)), (2, (IN_TWO, IN_ONE))):
    ways = (
        FOURIER.format(**way | {"init": way["init"].format(width)}, width=width) for way in ways
    )
    init = f"self.layer = Fourier(); self.last = nn.Linear({width}, 4)"
    both = (net(init, "return self.last(self.layer(x))", way) for way in ways)
    right(f"a complex weight in one of {'torch' if width == 6 else 'Paddle'}", *both)
SPECTRAL = """
class Spectral(Base):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        z = {fft}.rfft(x, {axis}=1)
        z = {stack}([z[:, 0] @ {one}, z[:, 1] @ {other}], 1)
        return {fft}.irfft(z, n=5, {axis}=1)
"""
# As in a Fourier neural operator: of few weights of a size their values tell.
COMPLEX = "nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))"
OF_TORCH = {
    **{"init": f"self.weights1 = {COMPLEX}; self.weights2 = {COMPLEX}", "fft": "torch.fft"},
    **{"stack": "torch.stack", "axis": "dim", "one": "self.weights1", "other": "self.weights2"},
}
OF_PADDLE = {
    "init": "; ".join(f"self.{name} = parameter(self, 8, 8)" for name in "abcd"),
    **{"fft": "paddle.fft", "stack": "paddle.stack", "axis": "axis"},
    "one": "paddle.complex(self.d, self.b)",
    "other": "paddle.complex(self.a, self.c)",
}
right(
    "two complex weights and four real ones",
    *(
        net("self.layer = Spectral()", "return self.layer(x)", SPECTRAL.format(**way))
        for way in (OF_TORCH, OF_PADDLE)
    ),
)
EXPERTS = """
class Expert(Base):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 6{0})
        self.up = nn.Linear(8, 6{0})
        self.down = nn.Linear(6, 8{0})
    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))
"""
OF_EXPERTS = """
    total = 0
    for i in range(3):
        total = total + self.experts[i](x) * (i + 1){}
    return total
"""
STACKED = """
    self.gate_up = parameter(self, {})
    self.down = parameter(self, {})
    self.gate_up_bias = parameter(self, 3, 12)
    self.down_bias = parameter(self, 3, 8)
"""
OF_STACK = """
    total = 0
    for i in range(3):
        y = x @ {} + self.gate_up_bias[i]
        gate, up = {}
        total = total + (F.silu(gate) * up) @ {} * (i + 1) + self.down_bias[i]
    return total
"""
IN_TURN = "y[:, :, 0::2], y[:, :, 1::2]"
right(
    "experts in one",
    net(
        "self.experts = nn.ModuleList([Expert() for _ in range(3)])",
        OF_EXPERTS.format(" - self.experts[i].down.bias * i"),
        EXPERTS.format(""),
    ),
    net(
        STACKED.format("3, 8, 12", "3, 6, 8"),
        OF_STACK.format("self.gate_up[i]", IN_TURN, "self.down[i]"),
    ),
)
right(
    "experts apart, which the reference has in one",
    net(
        "self.gate_up = parameter(self, 3, 8, 12)\nself.down = parameter(self, 3, 6, 8)",
        OF_STACK.replace(" + self.gate_up_bias[i]", "")
        .replace(" + self.down_bias[i]", "")
        .format("self.gate_up[i]", IN_TURN, "self.down[i]"),
    ),
    net(
        "self.experts = nn.LayerList([Expert() for _ in range(3)])",
        OF_EXPERTS.format(""),
        EXPERTS.format(", bias_attr=False"),
    ),
)
ROTARY = """
def rotated(x, halved):  # (B, T, C), two heads of four
    b, t, c = x.shape
    x = x.reshape([b, t, 2, 2, 2])
    one, two = (x[:, :, :, 0], x[:, :, :, 1]) if halved else (x[:, :, :, :, 0], x[:, :, :, :, 1])
    angle = {}.arange(10.0).reshape([1, 5, 1, 2]) / 3.0
    cos, sin = angle.cos(), angle.sin()
    return concat([one * cos - two * sin, two * cos + one * sin], -1).reshape([b, t, c])
"""
OF_ROTARY = "return attend(rotated(self.q(x), {0}), rotated(self.k(x), {0}), self.v(x), 2)"
PLAIN_QKV = "self.q = nn.Linear(8, 8); self.k = nn.Linear(8, 8); self.v = nn.Linear(8, 8)"
right(  # within each head of q and k: LLaMA's own weights against those of transformers
    "rotary halves for neighbours",
    net(PLAIN_QKV, OF_ROTARY.format(True), ROTARY.format("torch")),
    net(PLAIN_QKV, OF_ROTARY.format(False), ROTARY.format("paddle")),
)


right(  # all that a convert says
    "many at once",
    net(
        """
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 4)
        self.v = nn.Linear(8, 4)
        self.out = nn.Linear(8, 8)
        self.gate = nn.Linear(8, 6)
        self.up = nn.Linear(8, 6)
        self.down = nn.Linear(6, 8)
        """,
        """
        x = x + self.out(attend(self.q(x), self.k(x), self.v(x), 4, 2))
        return {"y": x + self.down(F.silu(self.gate(x)) * self.up(x))}
        """,
    ),
    net(
        """
        self.qkv = nn.Linear(8, 16)
        self.out = nn.Linear(8, 8)
        self.gate_up = nn.Linear(8, 12)
        self.down = nn.Linear(6, 8)
        """,
        """
        x = x + self.out(attend(*per_group(self.qkv(x), 2, [8, 4, 4]), 4, 2))
        y = self.gate_up(x)
        return {"y": x + self.down(F.silu(y[:, :, :6]) * y[:, :, 6:])}
        """,
    ),
)


@pytest.mark.parametrize(("torch", "paddle", "case", "rename"), RIGHT)
def test_what_is_proposed_carries_the_weights_over(propose, torch, paddle, case, rename):
    said = propose(torch, paddle, case)
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line], said
    assert rename in (None, said.rename)
    assert agree(torch, paddle, case, said), said


# ---- what is left open, and what differs --------------------------------------------------------

TOLD = []


def told(name, torch, paddle, *said, case=CASE):
    """Enter a pair of which just these lines tell that something is open or differs."""
    TOLD.append(pytest.param(torch, paddle, case, said, id=name))


BEHIND = "return self.second(F.relu(self.first(x)))"
told(
    "tied on one side alone",
    net(LINEARS + "\nself.second.weight = self.first.weight", BEHIND),
    net(LINEARS, BEHIND),
    "are tied in torch",
)
told(
    "what one side alone has",
    net(LINEARS + "\nself.unused = nn.Linear(8, 3)", BEHIND),
    net(LINEARS, BEHIND),
    "unused",
)
TABLE = """
import numpy as np
def table(off):  # (1, 100, 8); of two equal values the second by so many roundings larger
    values = np.repeat(np.sin(np.arange(400.0)), 2)
    values[1::2] += off * np.spacing(values[1::2])
    return values.reshape(1, 100, 8)
"""
WITH_TABLE = "return self.second(x) + self.first({}).mean(1, keepdim=True)"
for off, lines in ((1, ()), (1 << 40, ("DIFFERS: what arrives at first",))):
    told(  # sines of x and of pi - x are as one in one library and not in the other
        f"{off} roundings between values that are alike",
        net(LINEARS, WITH_TABLE.format("torch.tensor(table(0)).to(x.dtype)"), TABLE),
        net(LINEARS, WITH_TABLE.format(f"paddle.to_tensor(table({off})).astype(x.dtype)"), TABLE),
        *lines,
    )
SEVERAL = "self.body = nn.Sequential(nn.LayerNorm(8, {}), nn.Linear(8, 8))"
told(
    "a container of several kinds of layers in which one differs",
    *(net(SEVERAL.format(eps), "return self.body(x)") for eps in (1e-5, 1e-3)),
    "DIFFERS: body.0: given what torch's body.0 is given",
)
BODY = "self.mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))"
told(
    "layers of one kind whose numbers of rows differ",
    net(BODY, "return self.mlp(x)"),
    net(BODY, "return self.mlp(x + 0.1)"),
    "DIFFERS: what arrives at mlp.0",
)
told(  # the layer is right: what arrives is torch's, but for its axes
    "rows for columns within",
    *(net(LINEARS, f"return self.second({how}(self.first(x)))") for how in ("", "swapped")),
    "DIFFERS: what arrives at second",
    case=SQUARE,
)
told(
    "rows for columns of what a model with weights of its own gives",
    *(net("self.w = parameter(self, 8, 6)", f"return {n}(x @ self.w)") for n in ("", "swapped")),
    "given what torch's  is given, it gives another result",
    "DIFFERS: what the model gives",
    case=SQUARE.replace("8, 8", "6, 8"),
)
told(
    "a side that cannot run",
    net(LINEARS, "return self.second(self.first(x))"),
    net(LINEARS, "raise ValueError('no forward here')"),
    "the Paddle pass failed: names, shapes and order alone decided (ValueError: no forward here",
)


@pytest.mark.parametrize(("torch", "paddle", "case", "said"), TOLD)
def test_what_is_open_or_differs_is_told_and_nothing_else(propose, torch, paddle, case, said):
    proposal = propose(torch, paddle, case)
    lines = [*proposal.open, *(line for line in proposal.proofs if "DIFFERS" in line)]
    assert len(lines) == len(said), lines
    for line, wanted in zip(lines, said, strict=True):
        assert wanted in line


def structure(side, error="", **linears):
    """A model of Linear layers that was not run."""
    owners = {}
    for name, shape in linears.items():
        key = f"{name}.weight"
        owners[key] = Owner("Linear", "weight", shape, True, key)
    modules = {"": "Net", **dict.fromkeys(linears, "Linear")}
    return Structure(side, modules, owners, error=error)


def test_without_a_pass_names_and_shapes_decide_and_guesses_are_left_open():
    torch = structure("torch", error="ValueError: no", query=(8, 8), wide=(16, 8), value=(8, 8))
    paddle = structure("paddle", value=(8, 8), broad=(8, 16), q=(8, 8))
    proposal = propose_of(torch, paddle)
    assert proposal.rename == {"broad": "wide", "q": "query"}
    assert (
        "the torch pass failed: names, shapes and order alone decided (ValueError: no)"
        in (proposal.open[0])
    )
    assert "guessed" in proposal.open[1] and "q for query" in proposal.open[1]
    assert "value for" not in proposal.open[1]


def test_without_a_pass_of_torch_namesakes_stay_together():
    """Torch's order is that of construction then: its norm0 is where Paddle calls norm1."""
    shapes = {"q0": (9, 8), "norm0": (8, 8), "q1": (10, 8), "norm1": (8, 8)}
    torch = structure("torch", error="ValueError: no", **shapes)
    paddle = structure("paddle", norm0=(8, 8), q0=(8, 9), norm1=(8, 8), q1=(8, 10))
    assert propose_of(torch, paddle).rename == {}


# ---- how it is written --------------------------------------------------------------------------


def test_rename_is_the_shortest():
    names = {
        "encoder.layers.0.norm1": "encoder.layer.0.attention.norm",
        "encoder.layers.0.dense": "encoder.layer.0.dense",
        "encoder.layers.1.norm1": "encoder.layer.1.attention.norm",
        "encoder.layers.1.dense": "encoder.layer.1.dense",
        "head": "head",
    }
    table = shortest(names)
    assert table == {
        "encoder.layers": "encoder.layer",
        "encoder.layers.0.norm1": "encoder.layer.0.attention.norm",
        "encoder.layers.1.norm1": "encoder.layer.1.attention.norm",
    }
    assert {name: make_rename(table)(name) for name in names} == names


def test_rename_is_written_with_loops():
    table = {f"a.{i}.b{j}": f"x.{i}.y.{j}" for i in range(3) for j in (1, 2)} | {"c": "d"}
    text = rename_source(table)
    made = {}
    exec(text, made)
    assert made["RENAME"] == table
    assert text.count("for") == 2
    odd = {"a.0": "x.0", "a.1": "x.5", "a.7": "x.2"}
    exec(rename_source(odd), made)
    assert made["RENAME"] == odd


def test_no_convert_is_written_where_none_is_needed():
    assert convert_source({}) == ""
