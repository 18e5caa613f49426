"""A port that begins with other values than torch's, without data: named, with what mends it."""

import textwrap

import pytest
from builders import a_case, a_net, ended, paddles, write_pair

from twincheck.common.verdict.initial import Drawn, Part, Start
from twincheck.common.verdict.row import Row
from twincheck.extras.mend.beginnings import beginnings
from twincheck.extras.mend.edits import Source

CASE = a_case('"ids": rng.integers(0, 30, (4, 7))')
TORCH = a_net(
    """
    self.words = nn.Embedding(30, 16, padding_idx=0)
    self.lstm = nn.LSTM(16, 16, batch_first=True)
    self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
    self.norm = nn.LayerNorm(16)
    self.wide = nn.Linear(16, 40)
    self.act = nn.PReLU()
    self.back = nn.Linear(40, 16, bias=False)
    self.conv = nn.Conv1d(16, 8, 3, padding=1, groups=2)
    self.up = nn.ConvTranspose1d(8, 6, 2, stride=2)
    self.token = nn.Parameter(torch.randn(1, 1, 16) * 0.02)
    # more
    """,
    """
    x = self.lstm(self.words(ids) + self.token)[0]
    x = self.norm(x + self.attend(x, x, x, need_weights=False)[0])
    return self.up(self.conv(self.back(self.act(self.wide(x))).transpose(1, 2)))
    """,
    takes="ids",
)
PADDLE = paddles(
    TORCH,
    ("nn.Parameter(paddle.randn(1, 1, 16) * 0.02)", "self.create_parameter([1, 1, 16])"),
    (", need_weights=False)[0])", "))"),
    ("transpose(1, 2)", "transpose([0, 2, 1])"),
)
MORE = "        # more\n"


def checked(checkout, pair):
    done, document = checkout.rows(1, "--model", str(pair), "--no-report")
    return ended(0, (done, document))[0].stdout, document


@pytest.mark.slow
def test_every_default_that_differs_has_its_line_and_what_sets_it(checkout, tmp_path):
    """The lines that are printed make it green: Paddle's defaults of ten kinds of layers."""
    pair = write_pair(tmp_path / "my net", CASE, TORCH, PADDLE)
    said, document = checked(checkout, pair)
    assert document["overall"] == "ALIGNED" and not document["findings"]
    told = {one["sentence"].partition(" begins")[0]: one for one in document["initial"]}
    assert set(told) == {"Net", "Embedding", "Linear", "Conv1D", "Conv1DTranspose"}
    last = said.strip().splitlines()[-1]
    assert "initial values of Net, Embedding, Linear, Conv1D and Conv1DTranspose are not" in last
    assert "mend --model" in last
    lines = {one["paddle"]["line"] for one in document["initial"]}
    assert all(f"paddle_model.py:{line}" in said for line in lines) and len(lines) == 6
    assert "weight: torch uniform within ±0.25, Paddle uniform within ±0.327" in said
    # Alike layers are one finding, and a projection's rule is the fused weight's.
    linear = [one for one in document["initial"] if one["sentence"].startswith("Linear")]
    recipes = {line for one in linear for line in one["recipe"]}
    assert len(linear) == 3 and '    if name in ("wide", "back"):' in recipes
    assert any("(1.5 / layer.weight.shape[0]) ** 0.5" in line for line in recipes)
    lines = [line for one in document["initial"] for line in one["recipe"]]
    pasted = textwrap.indent("\n".join(lines), " " * 8).replace("model", "self")
    (pair / "paddle_model.py").write_text(PADDLE.replace(MORE, f"{pasted}\n"))
    said, document = checked(checkout, pair)
    assert not document["initial"] and "initial values" not in said


# ---- what mend writes ---------------------------------------------------------------------------


def a_start(torch, paddle, kind="Linear"):
    part = Part(Row("init/a.weight", "DIVERGED"), "a.weight", "weight", (4, 4), torch, paddle)
    return Start(kind, True, {"a": (part,)}, {"a": "net.py:1"}, "", (), frozenset())


def edited(text, start, **more):
    source = Source(textwrap.dedent(text).encode())
    more = {"root": "Net", "is_pairs_own": False} | more
    return [edit.applied(source.text).decode() for edit in beginnings(source, [start], **more)]


NORMAL, UNIFORM = Drawn("normal", 0.0, 0.1, 0.01), Drawn("uniform", 0.0, 0.5, 6.0, "in")
NET = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, weight_attr=nn.initializer.KaimingUniform())

    def forward(self, x):
        return self.a(x)
"""


def test_an_initialiser_is_exchanged_before_lines_are_put_in():
    exchanged, put_in = edited(NET, a_start(NORMAL, UNIFORM))
    assert "weight_attr=nn.initializer.Normal(std=0.1))" in exchanged
    assert "        torch_initial_values(self)\n\n    def forward" in put_in
    assert "        nn.initializer.Normal(std=0.1)(layer.weight)\n" in put_in
    # The port's initialiser is of another family than what is drawn: it is none of these.
    assert len(edited(NET, a_start(NORMAL, Drawn("constant", 0.0, 0.0)))) == 1


def test_a_layer_of_the_library_gets_them_where_the_pair_builds_it():
    text = "def build(config):\n    return nn.TransformerEncoderLayer(**config)\n"
    (put_in,) = edited(text, a_start(NORMAL, UNIFORM), is_pairs_own=True)
    assert (
        "    model = nn.TransformerEncoderLayer(**config)\n    torch_initial_values(model)"
        in put_in
    )
    assert not edited(text, a_start(NORMAL, UNIFORM))
    assert not edited(text, a_start(Drawn("table", 0.0, 0.0), UNIFORM), is_pairs_own=True)
