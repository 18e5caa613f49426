"""What is proposed of RENAME and `convert` is right where a guess by name, order or class is wrong;
what nothing tells apart is left open; and a wrong proposal, written into case.py, is found.

Tiny workers, a line or two a layer: the same class on both sides but for what the case is about.
"""

import textwrap

import numpy as np
import pytest
from checkout import Checkout

from twincheck.common.system.frameworks import SIDES
from twincheck.common.weights.layers import Owner, make_rename
from twincheck.extras.new_pair.propose import Proposal, of_pair
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

    def of(torch, paddle, case=CASE) -> Proposal:
        python = request.config.warm_python
        return of_pair(pair(torch, paddle, case), dict.fromkeys(SIDES, python))

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


QKV = """
    self.query = nn.Linear(8, 8)
    self.key = nn.Linear(8, 8)
    self.value = nn.Linear(8, 8)
    self.out = nn.Linear(8, 8)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("q", "k", "v"), [("key", "query", "value"), ("value", "query", "key")])
def test_q_k_and_v_whose_names_mislead(propose, q, k, v):
    torch = "return self.out(attend(self.query(x), self.key(x), self.value(x), 2))"
    paddle = f"return self.out(attend(self.{q}(x), self.{k}(x), self.{v}(x), 2))"
    proposal = propose(net(QKV, torch), net(QKV, paddle))
    names = {q: "query", k: "key", v: "value"}
    assert proposal.rename == {mine: its for mine, its in names.items() if mine != its}
    assert not proposal.open
    assert sum("not the other way round" in proof for proof in proposal.proofs) == 3


@pytest.mark.parametrize(("groups", "order"), [(1, "vqk"), (2, "qkv")])
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
    state = numbered(
        q__weight=(8, 8), k__weight=(4, 8), v__weight=(4, 8), q__bias=8, k__bias=4, v__bias=4
    )
    made = converted(proposal, state)
    parts = [state[f"{name}.weight"].reshape(groups, -1, 8) for name in order]
    assert np.array_equal(made["fused.weight"], np.concatenate(parts, 1).reshape(16, 8).T)
    parts = [state[f"{name}.bias"].reshape(groups, -1) for name in order]
    assert np.array_equal(made["fused.bias"], np.concatenate(parts, 1).reshape(16))


QKV_CONV = QKV.replace("nn.Linear(8, 8)", "nn.Conv1{0}(8, 8, 1)", 3)
BY_LINEAR = "q, k, v = per_group(self.qkv(x), 1, [8, 8, 8])"
BY_CONV = "q, k, v = per_group(swapped(self.qkv(swapped(x))), 1, [8, 8, 8])"
IN_ONE_QKV = "self.qkv = {}\nself.out = nn.Linear(8, 8)"
OF_ONE = "\nreturn self.out(attend(q, k, v, 2))"
OF_THREE = "return self.out(attend(self.query(x), self.key(x), self.value(x), 2))"
OF_THREE_CONVS = (
    "x = swapped(x)\nq, k, v = (swapped(f(x)) for f in (self.query, self.key, self.value))"
)
CONVS = {
    "one of torch": (
        net(IN_ONE_QKV.format("nn.Conv1d(8, 24, 1)"), BY_CONV + OF_ONE),
        net(QKV, OF_THREE),
    ),
    "three of torch": (
        net(QKV_CONV.format("d"), OF_THREE_CONVS + OF_ONE),
        net(IN_ONE_QKV.format("nn.Linear(8, 24)"), BY_LINEAR + OF_ONE),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("convs", list(CONVS))
def test_q_k_and_v_in_one_by_kernels_of_1(propose, convs, square):
    said = propose(*CONVS[convs], SQUARE if square else CASE)
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]
    names = ("query", "key", "value")
    if convs == "one of torch":
        state = numbered(qkv__weight=(24, 8, 1), qkv__bias=24)
        made = converted(said, state)
        parts = [made[f"{name}.weight"].T for name in names]
        assert np.array_equal(np.concatenate(parts), state["qkv.weight"][..., 0])
        assert np.array_equal(made["key.bias"], state["qkv.bias"][8:16])
        return
    state = numbered(
        **{f"{n}__weight": (8, 8, 1) for n in names}, **{f"{n}__bias": 8 for n in names}
    )
    right = np.concatenate([state[f"{name}.weight"].reshape(8, 8) for name in names])
    assert np.array_equal(converted(said, state)["qkv.weight"].T, right)


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
    forward = (
        "q, k, v = per_group(self.c_attn(x), 1, [8, 8, 8])\nreturn self.c_proj(attend(q, k, v, 2))"
    )
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
        return x @ {"swapped(self.weight)" if keeps else "self.weight"}
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


def test_raw_parameters_of_one_shape_whose_names_mislead(propose):
    init = "self.scale = parameter(self, 8)\nself.shift = parameter(self, 8)"
    proposal = propose(
        net(init, "return x * self.scale + self.shift"),
        net(init, "return x * self.shift + self.scale"),
    )
    assert proposal.rename == {"scale": "shift", "shift": "scale"}
    assert not proposal.open


def test_two_layers_that_nothing_tells_apart_are_left_open(propose):
    sides = "self.{0} = nn.Linear(8, 8)\nself.{1} = nn.Linear(8, 8)"
    proposal = propose(
        net(sides.format("one", "other"), "return self.one(x) + self.other(x)"),
        net(sides.format("left", "right"), "return self.left(x) + self.right(x)"),
    )
    assert any(
        "left and right: nothing in this pass tells them apart" in text for text in proposal.open
    )


def test_tied_on_one_side_alone_is_left_open(propose):
    init = "self.one = nn.Linear(8, 8)\nself.other = nn.Linear(8, 8)\n"
    forward = "return self.other(F.relu(self.one(x)))"
    tied = net(init + "self.other.weight = self.one.weight", forward)
    proposal = propose(tied, net(init, forward))
    assert any("are tied in torch" in text for text in proposal.open), proposal.open


def test_what_one_side_alone_has_is_left_open(propose):
    init = "self.one = nn.Linear(8, 8)\n"
    proposal = propose(
        net(init + "self.unused = nn.Linear(8, 3)", "return self.one(x)"),
        net(init, "return self.one(x)"),
    )
    assert any("unused" in text for text in proposal.open)


def test_a_shared_layer_and_one_that_is_never_called(propose):
    torch = (
        "self.shared = nn.Linear(8, 8)\nself.last = nn.Linear(8, 8)\nself.unused = nn.Linear(8, 4)"
    )
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
    paddle = (
        init.format(first="", d="D")
        .replace("self.rnn", "self.lstm")
        .replace("self.bn", "self.norm")
    )
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
        net(
            "self.attn = nn.MultiheadAttention(8, 2, batch_first=True)",
            "return self.attn(x, x, x)[0]",
        ),
        net(QKV, paddle),
    )
    assert make_rename(proposal.rename)("query.weight") == "attn.q_proj.weight"
    assert make_rename(proposal.rename)("out.weight") == "attn.out_proj.weight"


def test_a_multihead_attention_that_keeps_its_one_weight(propose):
    attention = "self.attn = {}.MultiheadAttention(8, 2, batch_first=True)"
    forward = "return self.norm(self.attn(x, x, x)[0])"
    norm = "self.norm = nn.LayerNorm(8)"
    proposal = propose(
        net(f"{attention.format('nn')}; {norm}", forward),
        net(f"{attention.format('paddle.compat.nn')}; {norm}", forward),
    )
    assert not proposal.rename and not proposal.open
    assert not [line for line in proposal.proofs if "DIFFERS" in line]


def test_a_layer_that_computes_more_than_its_partner_is_no_difference(propose):
    both = "self.first = nn.Linear(8, 6); self.second = nn.Linear(6, 8)"
    relu = "; self.first.register_forward_post_hook(lambda layer, given, gave: F.relu(gave))"
    torch = net(both, "return self.second(F.relu(self.first(x)))")
    said = propose(torch, net(both + relu, "return self.second(self.first(x))"))
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]
    assert [line for line in said.proofs if line.startswith("first: it gives another result")]


TABLE = """
import numpy as np
def table(off):  # (1, 100, 8); of two equal values the second by so many roundings larger
    values = np.repeat(np.sin(np.arange(400.0)), 2)
    values[1::2] += off * np.spacing(values[1::2])
    return values.reshape(1, 100, 8)
"""


@pytest.mark.parametrize(("off", "differs"), [(1, False), (1 << 40, True)])
def test_what_rounding_alone_tells_apart_is_no_difference(propose, off, differs):
    """Sines of x and of pi - x are as one in one library and not in the other."""
    forward = "return self.second(x) + self.first({}).mean(1, keepdim=True)"
    said = propose(
        net(LINEARS, forward.format("torch.tensor(table(0)).to(x.dtype)"), TABLE),
        net(LINEARS, forward.format(f"paddle.to_tensor(table({off})).astype(x.dtype)"), TABLE),
    )
    assert any("DIFFERS: what arrives at first" in line for line in said.proofs) == differs
    assert not said.open


def test_a_container_of_several_kinds_of_layers_in_which_one_differs(propose):
    """Their weights and biases are exchanged where they have equal sizes, and nowhere else."""
    init = "self.body = nn.Sequential(nn.LayerNorm(8, {}), nn.Linear(8, 8))"
    said = propose(*(net(init.format(eps), "return self.body(x)") for eps in (1e-5, 1e-3)))
    assert [line for line in said.proofs if line.startswith("DIFFERS: body.0")] and not said.open


def test_layers_of_one_kind_whose_numbers_of_rows_differ(propose):
    """Orders of rows are tried, since something differs, and each layer has its own."""
    body = "self.mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))"
    said = propose(net(body, "return self.mlp(x)"), net(body, "return self.mlp(x + 0.1)"))
    assert any("DIFFERS: what arrives at mlp.0" in line for line in said.proofs)
    assert not said.open and not said.rename


@pytest.mark.slow
@pytest.mark.parametrize(("width", "case"), [(6, CASE), (8, SQUARE)], ids=["oblong", "square"])
@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("torch_has_it", [True, False])
def test_a_kernel_of_1_is_a_linear_layer(propose, torch_has_it, axes, width, case):
    kernel = f"self.one = nn.Conv{axes}{'d' if torch_has_it else 'D'}(8, {width}, 1)"
    last = ", ".join(["..."] + ["None"] * (axes - 1))
    first = ", ".join(["..."] + ["0"] * (axes - 1))
    both = (
        net(kernel, f"return swapped(self.one(swapped(x)[{last}])[{first}])"),
        net(f"self.one = nn.Linear(8, {width})", "return self.one(x)"),
    )
    said = propose(*(both if torch_has_it else both[::-1]), case)
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]
    ones = (1,) * axes
    state = numbered(one__weight=(width, 8, *ones) if torch_has_it else (width, 8))
    weight = state["one.weight"].reshape(width, 8)
    right = weight.T if torch_has_it else weight.reshape(width, 8, *ones)
    assert np.array_equal(converted(said, state)["one.weight"], right)


def test_channels_last_are_no_difference(propose):
    """Nor where there are as many places as channels, so that no shape tells."""
    init = """
        self.one = nn.Conv1{0}(8, 8, 3, padding=1{1})
        self.norm = nn.BatchNorm1{0}(8{1})
    """
    said = propose(
        net(init.format("d", ""), "return swapped(self.norm(self.one(swapped(x))))"),
        net(init.format("D", ", data_format='NLC'"), "return self.norm(self.one(x))"),
        SQUARE,
    )
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]


OWN_CONV = """
class Conv(Base):
    def __init__(self):
        super().__init__()
        self.weight = parameter(self, 8, 8, 3)
        self.bias = parameter(self, 8)
    def forward(self, x):
        return swapped(F.conv1d(swapped(x), self.weight, self.bias, padding=1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", [CASE, SQUARE], ids=["oblong", "square"])
@pytest.mark.parametrize("torch_has_it", [True, False])
def test_an_own_layer_of_channels_last_is_no_difference(propose, torch_has_it, case):
    """It has no setting that says so: its values do."""
    first = f"self.one = nn.Conv1{'D' if torch_has_it else 'd'}(8, 8, 3, padding=1)"
    last = "; self.last = nn.Linear(8, 6)"
    both = (
        net("self.one = Conv()" + last, "return self.last(F.relu(self.one(x)))", OWN_CONV),
        net(first + last, "return self.last(F.relu(swapped(self.one(swapped(x)))))"),
    )
    said = propose(*(both if torch_has_it else both[::-1]), case)
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]


def test_rows_for_columns_are_a_difference_and_not_another_layer(propose):
    """What arrives at `second` is torch's, but for its axes; the layer is right."""
    forward = "return self.second({}(self.first(x)))"
    both = (net(LINEARS, forward.format(name)) for name in ("", "swapped"))
    said = propose(*both, SQUARE)
    lines = [line for line in said.proofs if "DIFFERS" in line]
    assert len(lines) == 1 and "what arrives at second" in lines[0], lines
    assert not said.open and not said.rename and not said.convert


def test_rows_for_columns_of_what_the_model_gives_are_a_difference(propose):
    """Of a model with weights of its own too, which is a layer by itself."""
    both = (
        net("self.w = parameter(self, 8, 6)", f"return {n}(x @ self.w)") for n in ("", "swapped")
    )
    proofs = propose(*both, SQUARE.replace("8, 8", "6, 8")).proofs
    assert any("DIFFERS: what the model gives" in line for line in proofs), proofs


SCALED = """
class Scaled(Base):
    def __init__(self, factor{argument}):
        super().__init__()
        self.weight = parameter(self, 8)
        self.factor = factor{keeps}
    def forward(self, x):
        return x * self.weight * self.factor
"""
EPSILON = {"argument": ", eps=1e-5", "keeps": "; self.eps = eps"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "more", "told"),
    [
        (
            ["nn.LayerNorm(8, 1e-5)", "nn.LayerNorm(8, 1e-3)"],
            ["", ""],
            "its epsilon is 0.001, and 1e-05 in torch",
        ),
        (
            [
                "nn.Conv1d(8, 8, 3, padding=1)",
                "nn.Conv1D(8, 8, 3, padding=1, padding_mode='reflect')",
            ],
            ["", ""],
            "its padding mode is reflect, and zeros in torch",
        ),
        (
            ["Scaled(1.0)", "Scaled(1.01)"],
            [SCALED.format(**EPSILON), SCALED.format(argument="", keeps="")],
            "otherwise, such as with another epsilon",
        ),
        (
            ["Scaled(1.0)", "Scaled(1.5)"],
            [SCALED.format(**EPSILON), SCALED.format(argument="", keeps="")],
            "it is another layer, or its weights are others",
        ),
        (["Scaled(1.0)", "Scaled(1.01)"], [SCALED.format(**EPSILON)] * 2, ""),
    ],
)
def test_what_a_layer_was_built_with_is_told_where_it_differs(propose, layers, more, told):
    """An epsilon is spoken of where there is one, and not where both have the same."""
    first = "Conv" in layers[0]
    forward = "return swapped(self.one(swapped(x)))" if first else "return self.one(x)"
    sides = zip(layers, more, strict=True)
    said = propose(*(net(f"self.one = {layer}", forward, own) for layer, own in sides))
    lines = [line for line in said.proofs + said.open if "gives another result" in line]
    assert len(lines) == 1 and lines[0].endswith(told or "it computes otherwise"), lines
    assert ("epsilon" in lines[0]) == ("epsilon" in told)


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
IN_TWO = "self.a = parameter(self, 8, {0}); self.b = parameter(self, 8, {0})"


@pytest.mark.slow
@pytest.mark.parametrize("width", [6, 2])
@pytest.mark.parametrize(("re", "im"), ["ab", "ba"])
@pytest.mark.parametrize("torch_has_one", [True, False])
def test_a_complex_weight_in_one_and_in_two(propose, torch_has_one, re, im, width):
    init = f"self.layer = Fourier(); self.last = nn.Linear({width}, 4)"
    in_two = {"init": IN_TWO.format(width), "re": f"self.{re}", "im": f"self.{im}"}
    in_one = IN_ONE | {"init": IN_ONE["init"].format(width)}
    both = [
        net(init, "return self.last(self.layer(x))", FOURIER.format(**how, width=width))
        for how in (in_one, in_two)
    ]
    said = propose(*(both if torch_has_one else both[::-1]))
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]
    if torch_has_one:
        state = numbered(layer__w=(8, width, 2))
        made = converted(said, state)
        assert np.array_equal(made[f"layer.{re}"], state["layer.w"][..., 0])
        assert np.array_equal(made[f"layer.{im}"], state["layer.w"][..., 1])
    else:
        state = numbered(layer__a=(8, width), layer__b=(8, width))
        right = np.stack([state[f"layer.{name}"] for name in (re, im)], -1)
        assert np.array_equal(converted(said, state)["layer.w"], right)


SPECTRAL = """
class Spectral(Base):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        z = {fft}.rfft(x, {axis}=1)
        z = {stack}([z[:, 0] @ {one}, z[:, 1] @ {other}], 1)
        return {fft}.irfft(z, n=5, {axis}=1){more}
"""


@pytest.mark.parametrize(
    ("names", "and_scale"),
    [(["w1_real", "w1_imag", "w2_real", "w2_imag"], True), (["d", "b", "a", "c"], False)],
)
def test_two_complex_weights_and_four_real_ones(propose, names, and_scale):
    """As in a Fourier neural operator; the names tell, or of few weights of a size their values."""
    complex_ = "nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))"
    weights = [f"paddle.complex(self.{re}, self.{im})" for re, im in (names[:2], names[2:])]
    torch = {
        **{"init": f"self.weights1 = {complex_}; self.weights2 = {complex_}", "fft": "torch.fft"},
        **{"stack": "torch.stack", "axis": "dim", "one": "self.weights1", "other": "self.weights2"},
    }
    paddle = {
        "init": "; ".join(f"self.{name} = parameter(self, 8, 8)" for name in sorted(names)),
        **{"fft": "paddle.fft", "stack": "paddle.stack", "axis": "axis"},
        **{"one": weights[0], "other": weights[1]},
    }
    init, forward = "self.layer = Spectral()", "return self.layer(x)"
    scale = "; self.scale = parameter(self, 8, 8)" if and_scale else ""
    both = [torch, paddle]
    for how in both:
        how |= {"init": how["init"] + scale, "more": " @ self.scale" if and_scale else ""}
    said = propose(*(net(init, forward, SPECTRAL.format(**how)) for how in both))
    assert not said.open and not [line for line in said.proofs if "DIFFERS" in line]
    state = numbered(layer__weights1=(8, 8, 2), layer__weights2=(8, 8, 2))
    made = converted(said, state)
    for i, name in enumerate(names):
        assert np.array_equal(
            made[f"layer.{name}"], state[f"layer.weights{i // 2 + 1}"][..., i % 2]
        )


EXPERTS = """
class Expert(Base):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 6)
        self.up = nn.Linear(8, 6)
        self.down = nn.Linear(6, 8)
    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))
"""


@pytest.mark.parametrize("kind", ["interleaved", "turned"])
def test_experts_in_one(propose, kind):
    """Stacked, gate and up in one: as halves, in turn, or (experts, out, in)."""
    cut = {"interleaved": "y[:, :, 0::2], y[:, :, 1::2]"}.get(kind, "y[:, :, :6], y[:, :, 6:]")
    up, down = ("swapped(self.{0}[i])" if kind == "turned" else "self.{0}[i]",) * 2
    shapes = ((3, 12, 8), (3, 8, 6)) if kind == "turned" else ((3, 8, 12), (3, 6, 8))
    init = f"""
        self.gate_up = parameter(self, {str(shapes[0])[1:-1]})
        self.down = parameter(self, {str(shapes[1])[1:-1]})
        self.gate_up_bias = parameter(self, 3, 12)
        self.down_bias = parameter(self, 3, 8)
    """
    forward = f"""
        total = 0
        for i in range(3):
            y = x @ {up.format("gate_up")} + self.gate_up_bias[i]
            gate, up = {cut}
            y = (F.silu(gate) * up) @ {down.format("down")} * (i + 1)
            total = total + y + self.down_bias[i]
        return total
    """
    torch = """
        total = 0
        for i in range(3):
            total = total + self.experts[i](x) * (i + 1) - self.experts[i].down.bias * i
        return total
    """
    proposal = propose(
        net("self.experts = nn.ModuleList([Expert() for _ in range(3)])", torch, EXPERTS),
        net(init, forward),
    )
    assert not proposal.open, proposal.open
    shapes = {"gate": (6, 8), "up": (6, 8), "down": (8, 6)}
    state = numbered(
        **{f"experts__{i}__{n}__weight": shape for i in range(3) for n, shape in shapes.items()},
        **{f"experts__{i}__{n}__bias": shape[0] for i in range(3) for n, shape in shapes.items()},
    )
    made = converted(proposal, state)
    gate, up, down = (
        np.stack([state[f"experts.{i}.{n}.weight"] for i in range(3)]) for n in shapes
    )
    one = (
        np.stack([gate, up], 2).reshape(3, 12, 8)
        if kind == "interleaved"
        else np.concatenate([gate, up], 1)
    )
    right = one if kind == "turned" else one.swapaxes(1, 2)
    assert np.array_equal(made["gate_up"], right)
    assert np.array_equal(made["down"], down if kind == "turned" else down.swapaxes(1, 2))


def test_experts_apart(propose):
    """The reference has them in one."""
    init = """
        self.gate_up = parameter(self, 3, 8, 12)
        self.down = parameter(self, 3, 6, 8)
    """
    forward = """
        total = 0
        for i in range(3):
            y = x @ self.gate_up[i]
            total = total + (F.silu(y[:, :, 0::2]) * y[:, :, 1::2]) @ self.down[i] * (i + 1)
        return total
    """
    paddle = """
        total = 0
        for i in range(3):
            total = total + self.experts[i](x) * (i + 1)
        return total
    """
    experts = EXPERTS.replace("6)", "6, bias_attr=False)").replace(
        "6, 8)", "6, 8, bias_attr=False)"
    )
    proposal = propose(
        net(init, forward),
        net("self.experts = nn.LayerList([Expert() for _ in range(3)])", paddle, experts),
    )
    assert not proposal.open, proposal.open
    state = numbered(gate_up=(3, 8, 12), down=(3, 6, 8))
    made = converted(proposal, state)
    assert np.array_equal(made["experts.1.gate.weight"], state["gate_up"][1, :, 0::2])
    assert np.array_equal(made["experts.2.up.weight"], state["gate_up"][2, :, 1::2])
    assert np.array_equal(made["experts.0.down.weight"], state["down"][0])


ROTARY = """
def rotated(x, halved):  # (B, T, C), two heads of four
    b, t, c = x.shape
    x = x.reshape([b, t, 2, 2, 2])
    one, two = (x[:, :, :, 0], x[:, :, :, 1]) if halved else (x[:, :, :, :, 0], x[:, :, :, :, 1])
    angle = POSITIONS
    cos, sin = angle.cos(), angle.sin()
    return concat([one * cos - two * sin, two * cos + one * sin], -1).reshape([b, t, c])
"""


def test_rotary_halves_for_neighbours(propose):
    """Within each head of q and k: LLaMA's own weights against those of transformers."""
    init = """
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)
    """
    forward = "return attend(rotated(self.q(x), {0}), rotated(self.k(x), {0}), self.v(x), 2)"
    angles = "({}(10.0).reshape([1, 5, 1, 2]) / 3.0)"
    proposal = propose(
        net(
            init, forward.format("True"), ROTARY.replace("POSITIONS", angles.format("torch.arange"))
        ),
        net(
            init,
            forward.format("False"),
            ROTARY.replace("POSITIONS", angles.format("paddle.arange")),
        ),
    )
    assert not proposal.open, proposal.open
    state = numbered(q__weight=(8, 8), k__weight=(8, 8), v__weight=(8, 8), q__bias=8, k__bias=8)
    made = converted(proposal, state)
    for name in ("q", "k"):
        right = state[f"{name}.weight"].reshape(2, 2, 2, 8).swapaxes(1, 2).reshape(8, 8)
        assert np.array_equal(made[f"{name}.weight"], right.T)
        right = state[f"{name}.bias"].reshape(2, 2, 2).swapaxes(1, 2).reshape(8)
        assert np.array_equal(made[f"{name}.bias"], right)
    assert "v.weight" not in made


def structure(side, error="", **linears):
    """A model of Linear layers that was not run."""
    owners = {}
    for name, shape in linears.items():
        key = f"{name}.weight"
        owners[key] = Owner("Linear", "weight", shape, True, key)
    modules = [("", "Net", "model"), *((n, "Linear", f"{side}.nn") for n in linears)]
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


def test_a_side_that_cannot_run_is_told(propose):
    failing = "raise ValueError('no forward here')"
    proposal = propose(net(LINEARS, "return self.second(self.first(x))"), net(LINEARS, failing))
    assert proposal.rename == {} and not proposal.convert
    assert "the Paddle pass failed" in proposal.open[0] and "no forward here" in proposal.open[0]


# A pair with all that a convert says; then the same with one word of it wrong.
MANY = {
    "torch": net(
        """
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 4)
        self.v = nn.Linear(8, 4)
        self.out = nn.Linear(8, 8)
        self.gate = nn.Linear(8, 6)
        self.up = nn.Linear(8, 6)
        self.down = nn.Linear(6, 8)
        self.experts = nn.ModuleList([nn.Linear(8, 8, bias=False) for _ in range(2)])
        self.norm = nn.BatchNorm1d(5)
        """,
        """
        x = x + self.out(attend(self.q(x), self.k(x), self.v(x), 4, 2))
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        x = self.experts[0](x) + 2 * self.experts[1](x)
        return {"y": self.norm(x)}
        """,
    ),
    "paddle": net(
        """
        self.qkv = nn.Linear(8, 16)
        self.out = nn.Linear(8, 8)
        self.gate_up = nn.Linear(8, 12)
        self.down = nn.Linear(6, 8)
        self.experts = parameter(self, 2, 8, 8)
        self.norm = nn.BatchNorm1D(5)
        """,
        """
        x = x + self.out(attend(*per_group(self.qkv(x), 2, [8, 4, 4]), 4, 2))
        y = self.gate_up(x)
        x = x + self.down(F.silu(y[:, :, :6]) * y[:, :, 6:])
        x = x @ self.experts[0] + 2 * (x @ self.experts[1])
        return {"y": self.norm(x)}
        """,
    ),
}
# name: what the proposal says, what is written instead, what the first red row is about
FORCED = {
    "q for k": ('["q.weight"], state["k.weight"]', '["k.weight"], state["q.weight"]', "out"),
    "an expert as it is": (".swapaxes(-1, -2)", "", "norm"),
    "a mean for a variance": (
        "RENAME = {}",
        'RENAME = {"norm._mean": "norm.running_var", "norm._variance": "norm.running_mean"}',
        "norm",
    ),
}


@pytest.fixture(scope="module")
def proposed(request, tmp_path_factory):
    """What is proposed for that pair: the lines of case.py."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "case.py").write_text(CASE)
    for side, source in MANY.items():
        (folder / f"{side}_model.py").write_text(HEAD[side] + source)
    python = request.config.warm_python
    proposal = of_pair(folder, dict.fromkeys(SIDES, python))
    assert not proposal.open, proposal.open
    return rename_source(proposal.rename) + "\n\n" + proposal.convert


@pytest.mark.slow
@pytest.mark.parametrize("name", ["right", *FORCED])
def test_a_wrong_proposal_is_red_and_named(pair, proposed, name, tmp_path):
    """One word of what is proposed is written otherwise into case.py: step 1 names the place."""
    old, new, where = FORCED.get(name, ("", "", ""))
    text = proposed.replace(old, new) if old else proposed
    assert name == "right" or (old in proposed and text != proposed)
    folder = pair(MANY["torch"], MANY["paddle"], CASE + text)
    options = ("--model", str(folder), "--no-report", "--case", "perturbed")
    done, report = Checkout(tmp_path / "checkout").rows(1, *options)
    assert done.returncode == (0 if name == "right" else 1), done.stdout + done.stderr
    assert name == "right" or f"/{where}" in report["first_diverged"], report["first_diverged"]


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
    table = {f"a.{i}.b{j}": f"x.{i + 1}.y.{j}" for i in range(3) for j in (1, 2)} | {"c": "d"}
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
