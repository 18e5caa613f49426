"""The certificate of conversion, and what it must not certify: each fault is planted in a pair."""

import json

import pytest
from checkout import Checkout
from ported import LAYER_ZOO, SMALL_LSTM, SMALL_TRANSFORMER

CASE = """
import numpy as np

CONFIGS = {"default": {}}

def make_inputs(config, seed):
    rng = np.random.default_rng(seed)
    return {"ids": rng.integers(0, 7, size=(3, 5))}
"""

# Two square layers of one shape, a BatchNorm between them, and an embedding that is tied.
TORCH = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(7, 4)
        self.a = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.b = nn.Linear(4, 4)
        self.out = nn.Embedding(7, 4)
        self.out.weight = self.emb.weight

    def forward(self, ids):
        x = self.b(self.norm(self.a(self.emb(ids).mean(1))))
        return {"logits": x @ self.out.weight.T}

def build(config):
    return Net()

def loss(outputs, inputs):
    return (outputs["logits"] ** 2).mean()
"""
PADDLE = (
    TORCH.replace("torch", "paddle")
    .replace("nn.Module", "nn.Layer")
    .replace("BatchNorm1d", "BatchNorm1D")
)
# Three layers in one on the Paddle side, which `convert` makes.
FUSED = PADDLE.replace("self.b = nn.Linear(4, 4)", "self.ab = nn.Linear(4, 8)").replace(
    "        self.a = nn.Linear(4, 4)\n", ""
).replace(
    "self.b(self.norm(self.a(self.emb(ids).mean(1))))",
    "self.second(self.norm(self.first(self.emb(ids).mean(1))))",
) + '''
def first(self, x):
    return x @ self.ab.weight[:, :4] + self.ab.bias[:4]

def second(self, x):
    return x @ self.ab.weight[:, 4:] + self.ab.bias[4:]

Net.first, Net.second = first, second
'''  # fmt: skip
FUSE = """
def convert(torch_state):
    a, b = torch_state["a.weight"], torch_state["b.weight"]
    return {
        "ab.weight": np.concatenate([a, b]).T,
        "ab.bias": np.concatenate([torch_state["a.bias"], torch_state["b.bias"]]),
    }
"""
FORGETFUL = """
    def set_state_dict(self, state, *arguments, **options):
        state = {key: value for key, value in state.items() if not key.endswith("_mean")}
        return super().set_state_dict(state, *arguments, **options)

    def forward"""


def changed(text, old, new):
    """A text with a fault in it, which must have been planted."""
    assert old in text
    return text.replace(old, new)


# name -> case.py, paddle_model.py, and words that the certificate must hold (none: it is certified)
MADE = {
    "sound": (CASE, PADDLE, ()),
    "fused": (CASE + FUSE, FUSED, ()),
    "crossed": (CASE + 'RENAME = {"a": "b", "b": "a"}\n', PADDLE, ("first a:in/0 (DIVERGED)",)),
    "untransposed": (
        CASE + 'def convert(state):\n    return {"a.weight": state["a.weight"]}\n',
        PADDLE,
        ("first a (DIVERGED)",),
    ),
    "statistics": (
        CASE,
        changed(PADDLE, "\n    def forward", FORGETFUL),
        ("norm.running_mean came out of a model with other bits", "first norm (DIVERGED)"),
    ),
    "padded": (
        CASE,
        changed(PADDLE, "self.emb = nn.Embedding(7, 4)", "self.emb = nn.Embedding(7, 4, 0)"),
        (
            "emb.weight: padding_idx is None in torch and 0 in Paddle",
            "emb.weight: its padding row is not 0",
            "first emb (DIVERGED)",
        ),
    ),
    "untied": (
        CASE,
        changed(PADDLE, "        self.out.weight = self.emb.weight\n", ""),
        ("emb.weight and out.weight are tied in torch, emb.weight and out.weight are not tied",),
    ),
    "no_bias": (
        CASE,
        changed(PADDLE, "self.b = nn.Linear(4, 4)", "self.c = nn.Linear(4, 4, bias_attr=False)")
        .replace("self.b(", "self.c("),
        (),
    ),
}  # fmt: skip


def certificate(checkout, *models):
    """Run the command from the checkout's root; (exit status, output, name -> certificate)."""
    report = checkout.elsewhere / "certificate.json"
    report.unlink(missing_ok=True)
    named = [word for model in models for word in ("--model", str(model))]
    done = checkout.module("twincheck", "certificate", *named, "--json", str(report))
    found = json.loads(report.read_text()) if report.is_file() else []
    return done, {row["model"]: row for row in found}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def made(checkout):
    """Every made pair's certificate, from one run."""
    folders = []
    for name, (case, paddle, _) in MADE.items():
        folder = checkout.elsewhere / "my pairs" / name
        folder.mkdir(parents=True)
        (folder / "case.py").write_text(case)
        (folder / "torch_model.py").write_text(TORCH)
        (folder / "paddle_model.py").write_text(paddle)
        folders.append(folder)
    done, found = certificate(checkout, *folders)
    assert done.returncode == 1, done.stdout + done.stderr
    assert list(found) == list(MADE)
    return done, found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in MADE.items() if row[2]])
def test_a_planted_fault_is_not_certified(made, name):
    found = made[1][name]
    assert not found["certified"] and found["exit_code"] == 1
    for words in MADE[name][2]:
        assert words in " | ".join(found["problems"])


def test_sound_pairs_are_certified(made):
    done, found = made
    assert found["sound"]["certified"] and found["fused"]["certified"]
    rows = {row["paddle_key"]: row for row in found["sound"]["rows"]}
    assert rows["emb.weight"]["also_in_torch"] == rows["emb.weight"]["also_in_paddle"]
    assert rows["norm._mean"]["torch_key"] == "norm.running_mean"
    assert all(row["read_back"] and row["paddle_to_torch"] for row in rows.values())
    assert found["sound"]["without_partner"] == {
        "norm.num_batches_tracked": "torch counts the batches"
    }
    fused = {row["paddle_key"]: row for row in found["fused"]["rows"]}
    assert fused["ab.weight"]["torch_key"] == "a.weight, b.weight"
    assert fused["ab.weight"]["probe_verdict"] == "not reached"
    assert "fused: not reached: ab;" in done.stdout
    assert "sound: certified: 9 entries (2 transposed, 1 tied, 2 buffers)" in done.stdout


def test_leftovers_of_both_sides_are_listed(made):
    done, found = made
    assert found["no_bias"]["only_torch"] == ["b.bias", "b.weight"]
    assert found["no_bias"]["only_paddle"] == ["c.weight"]
    assert "no_bias: NOT certified: 0 problems, 3 entries without partner" in done.stdout


@pytest.mark.slow
def test_the_frameworks_own_layers_are_certified(checkout):
    pairs = [SMALL_LSTM, SMALL_TRANSFORMER, LAYER_ZOO]
    done, found = certificate(checkout, *pairs)
    assert done.returncode == 0, done.stdout + done.stderr
    reached = [row["probe_verdict"] for pair in found.values() for row in pair["rows"]]
    assert "not reached" not in reached and len(reached) > 150
    kinds = {row["kind"] for row in found["layer_zoo"]["rows"]}
    assert len(kinds) == 23, "a kind of layer that nobody tries may be mapped wrongly"
    rows = {row["paddle_key"]: row for row in found["small_transformer"]["rows"]}
    assert rows["decoder.cross_attn.v_proj.weight"]["torch_key"] == (
        "decoder.multihead_attn.in_proj_weight"
    )


@pytest.mark.slow
def test_what_cannot_be_found_out_is_2(checkout, tmp_path):
    assert certificate(checkout, tmp_path)[0].returncode == 2
    folder = tmp_path / "computes"
    folder.mkdir()
    (folder / "case.py").write_text(
        CASE + 'def convert(state):\n    return {"a.bias": state["a.bias"] * 2}\n'
    )
    (folder / "torch_model.py").write_text(TORCH)
    (folder / "paddle_model.py").write_text(PADDLE)
    done = certificate(checkout, folder)[0]
    assert done.returncode == 2 and "convert computes a.bias" in done.stderr
    assert "Traceback" not in done.stderr
