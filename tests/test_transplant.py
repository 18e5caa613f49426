"""Op transplant: torch's operators in the Paddle worker, and the search for the smallest set."""

import copy
import json
import re
import sys

import pytest
from builders import SMALL_CNN, ended, python
from checkout import Checkout, change

from twincheck.common.check.options import Parser
from twincheck.common.system.errors import UserError
from twincheck.extras.bits import operators

pytestmark = pytest.mark.slow

PAIR = str(SMALL_CNN)
# Paddle's own results have other bits than torch's, on this processor at least in the first three.
CALLS = {
    "layer_norm": "F.layer_norm(x, [8], weight=w[0], bias=w[1], epsilon=1e-5)",
    "softmax": "F.softmax(x, axis=-1)",
    "gelu": "F.gelu(x)",
    "linear": "F.linear(x, w, bias=w[0])",
    "matmul": "paddle.matmul(x, x, transpose_y=True)",
    "einsum": "paddle.einsum('btc,dc->btd', x, w)",
    "logsumexp": "paddle.logsumexp(x, axis=-1, keepdim=True)",
    "log_softmax": "F.log_softmax(x)",
    "cross_entropy": "F.cross_entropy(x.reshape([-1, 8]), paddle.arange(6) % 8)",
    "exp": "x.exp()",
    "tanh": "paddle.tanh(x)",
    "relu": "paddle.nn.ReLU()(x)",
    "maximum": "paddle.maximum(x, -x)",
    "rsqrt": "(x * x + 1.0).rsqrt()",
    "sum": "paddle.sum(x, axis=[0, 1])",
    "mean": "x.mean(axis=-1, keepdim=True)",
    "var": "x.var(axis=-1)",
    "norm": "paddle.norm(x, axis=-1)",
    "embedding": "F.embedding(paddle.to_tensor([1, 1, 2]), w)",
    "gather": "paddle.index_select(x, paddle.to_tensor([0, 0, 2]), axis=1)",
    "conv": "F.conv1d(x, w.reshape([8, 1, 8]).expand([8, 3, 8])[:, :, :3], padding=1)",
    "batch_norm": "F.batch_norm(x.reshape([6, 8]), w[2].detach(), w[3].detach() ** 2 + 1.0)",
    "attention": "F.scaled_dot_product_attention(*[x.unsqueeze(2)] * 3)",
    "add": "x + w[0]",
    "multiply": "w[0] * x",
    "divide": "1.0 / (x * x + 2.0)",
    "sort": "x.sort(axis=-1)",
    "topk": "paddle.topk(x, 3)[0]",
}
# Runs every call with Paddle's own operator and with torch's: outputs and gradients of both.
PROGRAM = """
import json, sys
import numpy as np, paddle
import paddle.nn.functional as F
rng = np.random.default_rng(0)
start = [rng.normal(size=(2, 3, 8)), rng.normal(size=(8, 8))]

def run(text):
    x, w = (paddle.to_tensor(values, stop_gradient=False) for values in start)
    y = eval(text)
    (y * paddle.arange(y.size, dtype=y.dtype).reshape(y.shape)).sum().backward()
    none = np.zeros(1)
    return [y.numpy(), *(none if t.grad is None else t.grad.numpy() for t in (x, w))]

calls = json.loads(sys.argv[1])
own = {name: run(text) for name, text in calls.items()}
from twincheck.extras.bits.patch import Transplant
found = {}
for name, text in calls.items():
    transplant = Transplant([name])
    transplant.way.put()
    taken = run(text)
    tally = transplant.take_counts()[name]
    off = max(float(np.abs(a - b).max()) for a, b in zip(own[name], taken))
    found[name] = {"off": off, **tally}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def calls():
    told = python("-c", PROGRAM, json.dumps(CALLS), warm=True, timeout=120)
    return json.loads(told.splitlines()[-1])


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_and_its_gradient_are_taken_and_mean_the_same(calls, name):
    """In float64: the same function, forward and backward; nothing was left to Paddle.

    Paddle keeps a norm's epsilon in float32, which shows at 1e-11.
    """
    tally = calls[name]
    assert tally["calls"] >= 1 and tally["gradients"] >= 1, tally
    assert tally["untaken"] == {}
    assert tally["off"] < 1e-9 and tally["largest"] < 1e-9, tally


def test_operators_are_named_and_unknown_ones_refused():
    assert operators.chosen("softmax, gelu,softmax") == ["softmax", "gelu"]
    assert set(operators.chosen("all")) == set(operators.TABLE)
    seeds = {"linear", "layer_norm", "sum", "norm", "logsumexp"}
    assert seeds <= set(operators.TABLE)
    with pytest.raises(UserError, match="sotfmax,gelu: sotfmax is no operator that"):
        operators.chosen("sotfmax,gelu")
    with pytest.raises(UserError, match="nothing is no operator"):
        operators.chosen(" ,")
    parser = Parser("").take("transplant")
    assert parser.parse_args(["--transplant", "all"]).transplant == "all"


# ---- through the check ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def steady(checkout):
    """Return a checkout where one library adds up in one order, in whichever process it is asked.

    With more threads than cores, or told to be alike on all processors, it looks at where an array
    lies in memory.
    """
    same = copy.copy(checkout)
    same.interpreter = ("env", "-u", "MKL_CBWR", "OMP_NUM_THREADS=1", sys.executable)
    return same


@pytest.fixture(scope="module")
def transplanted(steady):
    return steady.rows(1, "--model", "reformer", "--transplant", "all", "--no-report")


def test_every_tensor_of_the_reformer_has_the_same_bits(transplanted, checkout):
    done, report = ended(0, transplanted)
    assert {row["max_abs"] for row in report["rows"]} == {0.0}
    assert report["verdict"] == "IDENTICAL" and len(report["rows"]) > 1000
    text = done.stdout
    assert "the logs are not independent" in text
    assert "were both logs made by one?" not in text
    sidecar = json.loads((checkout.logs(1, "reformer") / "forward_all_paddle.json").read_text())
    assert "softmax" in sidecar["transplanted"]


def test_in_a_green_check_nothing_is_searched_for(checkout):
    run = ("--model", PAIR, "--no-report", "--case", "perturbed")
    done, _ = ended(0, checkout.rows(1, *run, "--transplant", "smallest"))
    assert "it is green: no operator has to be exchanged" in done.stdout


PLANTED = """import paddle
_exp = paddle.exp
paddle.exp = lambda x: _exp(x) * (1.0 + 1e-4 * paddle.tanh(x))
"""


def test_a_planted_wrong_operator_is_named(tmp_path):
    """An approximate exp that a port brings with it."""
    copy = Checkout(tmp_path)
    change(copy.path("common/models/fastformer/paddle_model.py"), "import paddle\n", PLANTED)
    run = ("--model", "fastformer", "--no-report", "--case", "main")
    done, report = ended(1, copy.rows(1, *run, "--transplant", "smallest"))
    line = next(line for line in done.stdout.splitlines() if "smallest set that makes" in line)
    assert line.endswith(": exp"), line


def test_a_wrong_model_is_not_blamed_on_an_operator(tmp_path):
    copy = Checkout(tmp_path)
    path = copy.path("common/models/fastformer/paddle_model.py")
    change(path, "key * global_query)", "key * global_query * 1.001)")
    run = ("--model", "fastformer", "--no-report", "--case", "main")
    done, _ = ended(1, copy.rows(1, *run, "--transplant", "smallest"))
    assert "no set of operators makes it green" in done.stdout


def test_a_users_pair_with_convolutions_has_the_same_bits(steady):
    """Layers that call Paddle's functions by other ways than their public names.

    Forward and backward; the optimizer steps pass too, but Adam itself is no operator.  In eval
    mode: in train mode BatchNorm stays Paddle's own.
    """
    run = ("--model", PAIR, "--mode", "eval")
    done, report = ended(0, steady.rows(4, *run, "--transplant", "all", "--no-report"))
    step = re.compile(r"(^|/)\w+/\d{3}/")
    once = [row for row in report["rows"] if not step.search(row["key"])]
    keys = {row["key"] for row in once}
    assert {"logits", "grad/features.0.weight", "perturbed/grad/head.weight"} <= keys
    assert len(report["rows"]) > len(once)
    assert {row["max_abs"] for row in once if row["max_abs"] is not None} == {0.0}
    assert "stayed Paddle's own" not in done.stdout
