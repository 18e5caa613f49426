"""fast_transformer: both twins against the reference program, and each other in float64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checkout import Checkout

from common.models.fast_transformer.case import CASES, CONFIGS, complete, make_inputs

HERE = Path(__file__).resolve().parent
SIDES = ("torch", "paddle")
GOLDEN_CONFIGS = {
    "lucid_abs": {
        "num_tokens": 100,
        "dim": 32,
        "depth": 2,
        "max_seq_len": 64,
        "heads": 4,
        "dim_head": 16,
        "absolute_pos_emb": True,
        "head": "lm",
    },
    "seed001_cls_b": {
        "num_tokens": 100,
        "dim": 40,
        "depth": 2,
        "max_seq_len": 48,
        "heads": 8,
        "dim_head": 12,
        "absolute_pos_emb": True,
        "head": "classification",
        "num_labels": 5,
    },
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """A function that has one side's process run a model and returns its answer's arrays."""
    folder = tmp_path_factory.mktemp("sides")
    processes = {
        side: subprocess.Popen(
            [*Checkout.interpreter, "-W", "ignore", HERE / "one_side.py", side],
            env=os.environ | {"PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side in SIDES
    }

    def run(side, config, state=None, inputs=None, dtype="float32", train=False):
        request, answer = folder / f"request_{side}.npz", folder / f"answer_{side}.npz"
        arrays = {f"sd/{key}": value for key, value in (state or {}).items()}
        arrays |= {f"in/{key}": value for key, value in (inputs or {}).items()}
        meta = json.dumps({"config": config, "dtype": dtype, "train": train})
        np.savez(request, meta=np.array(meta), **arrays)
        print("fast_transformer", request, answer, sep="\t", file=processes[side].stdin, flush=True)
        assert processes[side].stdout.readline() == "done\n"
        with np.load(answer, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    yield run
    for process in processes.values():
        process.communicate()


def golden(case):
    """The arrays of one case of the reference program, by kind: sd, in, out, grad."""
    with np.load(HERE / "goldens" / "fast_transformer_lucid.npz", allow_pickle=False) as file:
        kinds = {kind: {} for kind in ("sd", "in", "out", "grad")}
        for key in file.files:
            name, _, path = key.partition("|")
            kind, _, path = path.partition("/")
            if name == case and kind in kinds:
                kinds[kind][path] = file[key]
    return kinds


def perturbed(shapes, seed=0):
    """Weights in which no bias is 0 and no gain 1, float64, torch's layout; ties are kept."""
    rng = np.random.default_rng(seed)
    state = {}
    for key, shape in shapes.items():
        first = key
        for tied in ("to_q_attn_logits", "to_k_attn_logits"):
            if tied in key:
                first = key[: key.index("layers.")] + f"layers.0.0.fn.{tied}.weight"
        if first in state:
            state[key] = state[first]
        elif key.endswith("pos_emb.freqs"):
            state[key] = 10000.0 ** -(np.arange(shape[0]) / shape[0])
        else:
            norm = "norm.weight" in key or "to_logits.0.weight" in key
            # Embeddings as in the reference: Paddle keeps LayerNorm's 1e-5 in float32, and on
            # vectors much smaller than 1 that alone is more than the 1e-12 asked for below.
            scale = 1.0 if "_emb.weight" in key else 0.2
            state[key] = scale * rng.standard_normal(shape) + (1.0 if norm else 0.0)
    return state


def largest(grads):
    """The largest gradient of a case."""
    return max(np.abs(values).max() for values in grads.values())


@pytest.mark.parametrize("case", GOLDEN_CONFIGS)
@pytest.mark.parametrize("side", SIDES)
def test_golden(ask, side, case):
    arrays = golden(case)
    inputs = {
        "input_ids": arrays["in"]["ids"],
        "attention_mask": arrays["in"]["mask"],
        "labels": arrays["in"]["labels"],
    }
    answer = ask(side, GOLDEN_CONFIGS[case], arrays["sd"], inputs, train=True)
    assert answer["error"] == ""
    assert set(json.loads(str(answer["keys"]))) == set(arrays["sd"])
    assert np.abs(answer["logits"] - arrays["out"]["y"]).max() <= 1e-5
    assert abs(answer["loss"] - arrays["out"]["loss"]) <= 1e-5
    grads = {key[5:]: values for key, values in answer.items() if key.startswith("grad/")}
    assert set(grads) == set(arrays["grad"])  # the tied projections once, under their first name
    whole = largest(arrays["grad"])
    for name, expected in arrays["grad"].items():
        scale = np.abs(expected).max()
        # A bias before a softmax moves nothing: its gradient is noise, seen below 1e-7.
        scale = whole if scale < 1e-6 * whole else scale
        assert np.abs(grads[name] - expected).max() <= 1e-5 * scale, name
    token_emb = next(values for name, values in grads.items() if name.endswith("token_emb.weight"))
    assert token_emb[0].any()  # unlike in `fastformer`, the padding token is learnt


@pytest.mark.parametrize("name", CASES["default"])
def test_sides_agree_in_float64(ask, name):
    row = CASES["default"][name]
    config = CONFIGS["default"] | row.get("config", {})
    inputs = make_inputs(config, 1, **row.get("inputs", {}))
    state = perturbed(json.loads(str(ask("torch", config)["shapes"])))
    torch, paddle = (ask(side, config, state, inputs, "float64") for side in SIDES)
    assert torch["logits"].dtype == paddle["logits"].dtype == np.float64
    assert set(torch) == set(paddle)
    whole = largest({key: values for key, values in torch.items() if key.startswith("grad/")})
    compared = 0
    for key, expected in torch.items():
        if expected.dtype.kind == "f":
            scale = whole if key.startswith("grad/") else np.abs(expected).max()
            assert np.abs(paddle[key] - expected).max() <= 1e-12 * scale, key
            compared += 1
    assert compared > 30


def turn(x, freqs):
    """Rotary positions by complex numbers: x (T, D) -> its first half turned, (T, D)"""
    half = 2 * len(freqs)
    points = x[:, 0:half:2] + 1j * x[:, 1:half:2]
    points = points * np.exp(1j * np.arange(len(x))[:, None] * freqs)
    turned = x.copy()
    turned[:, 0:half:2], turned[:, 1:half:2] = points.real, points.imag
    return turned


def norm(state, prefix, x):
    """LayerNorm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * state[f"{prefix}.weight"] + state[f"{prefix}.bias"]


def attention(state, prefix, x, mask, heads, width):
    """One row and one head after the other in NumPy: x (T, C), mask (T) bool -> (T, C)"""

    def softmax(logits):
        logits = np.where(mask, logits, -np.finfo(np.float64).max)
        exps = np.exp(logits - logits.max())
        return exps / exps.sum()

    qkv = x @ state[f"{prefix}.to_qkv.weight"].T
    freqs = state.get(f"{prefix}.pos_emb.freqs")
    parts = []
    for head in range(heads):
        q, k, v = (
            qkv[:, (i * heads + head) * width : (i * heads + head + 1) * width] for i in range(3)
        )
        tq, tk, tv = (q, k, v) if freqs is None else (turn(part, freqs) for part in (q, k, v))
        halve = (lambda y: y) if freqs is None else (lambda y: y[:, ::2] + y[:, 1::2])
        alpha = softmax(q @ state[f"{prefix}.to_q_attn_logits.weight"][0] / width**0.5)
        mixed = halve(k * (alpha @ tq))
        beta = softmax(mixed @ state[f"{prefix}.to_k_attn_logits.weight"][0] / width**0.5)
        u = halve(tv * (beta @ tk))
        parts.append(u @ state[f"{prefix}.to_r.weight"].T + state[f"{prefix}.to_r.bias"] + q)
    heads_side_by_side = np.concatenate(parts, 1)
    return heads_side_by_side @ state[f"{prefix}.to_out.weight"].T + state[f"{prefix}.to_out.bias"]


@pytest.mark.parametrize("absolute", [True, False])
def test_maths_by_hand(ask, absolute):
    """A model without feed-forward: its last Linear is 0, so that no erf is needed."""
    config = CONFIGS["default"] | {"absolute_pos_emb": absolute, "max_seq_len": 11}
    state = perturbed(json.loads(str(ask("torch", config)["shapes"])))
    for key in state:
        if ".1.fn.2." in key:
            state[key] = 0 * state[key]
    inputs = make_inputs(config, 2, mask="holes", masked_rows=True)
    answer = ask("torch", config, state, inputs, "float64")
    for row, ids in enumerate(inputs["input_ids"]):
        x = state["token_emb.weight"][ids]
        x = x + state["abs_pos_emb.weight"] if absolute else x
        for i in range(2):
            y = norm(state, f"layers.{i}.0.norm", x)
            x = x + attention(state, f"layers.{i}.0.fn", y, inputs["attention_mask"][row], 3, 8)
        x = norm(state, "to_logits.0", x)
        expected = x @ state["to_logits.1.weight"].T + state["to_logits.1.bias"]
        assert np.abs(answer["logits"][row] - expected).max() <= 1e-12 * np.abs(expected).max()


ROTARY = """
import sys
import numpy as np
side = __import__("common." + sys.argv[1] + "_side", fromlist=["tensor"])
models = __import__(f"common.models.fast_transformer.{sys.argv[1]}_model", fromlist=["x"])
side.set_up("float64", "cpu", 0)
rotary = models.RotaryEmbedding(8)
x = np.load(sys.argv[2])
np.savez(sys.argv[3], y=side.array(rotary(side.tensor(x))), freqs=side.array(rotary.freqs))
"""


@pytest.mark.parametrize("side", SIDES)
def test_rotary(side, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal([2, 10, 3, 16])  # (B, T, H, D)
    x[1] = x[1, :1]  # the same vector at every position
    np.save(tmp_path / "x.npy", x)
    subprocess.run(
        [sys.executable, "-c", ROTARY, side, tmp_path / "x.npy", tmp_path / "y.npz"],
        env=os.environ | {"PYTHONPATH": str(HERE.parent)},
        check=True,
    )
    with np.load(tmp_path / "y.npz") as file:
        y, freqs = file["y"], file["freqs"]
    assert np.allclose(freqs, [1, 0.1, 0.01, 0.001], rtol=1e-15)
    expected = np.stack([[turn(row[:, head], freqs) for head in range(3)] for row in x])
    expected = expected.swapaxes(1, 2)
    assert np.abs(y - expected).max() <= 1e-14
    assert np.array_equal(y[..., 8:], x[..., 8:])  # the second half stays
    assert np.array_equal(y[:, 0], x[:, 0])  # so does position 0
    assert np.allclose(np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-14)
    # The product of one vector at two positions depends on their distance alone.
    dots = np.einsum("ihd,jhd->hij", y[1], y[1])
    assert np.allclose(dots[:, 1:, 1:], dots[:, :-1, :-1], rtol=1e-13)
    assert not np.allclose(dots[:, 0, 1:], dots[:, 0, :-1], rtol=1e-3)


@pytest.mark.parametrize("head", ["lm", "classification"])
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("side", SIDES)
def test_keys(ask, side, absolute, head):
    """The reference's keys and shapes; a shared projection is listed under each layer."""
    config = CONFIGS["default"] | {"absolute_pos_emb": absolute, "head": head}
    shapes = json.loads(str(ask(side, config)["shapes"]))
    expected = {"token_emb.weight": [100, 32]}
    if absolute:
        expected["abs_pos_emb.weight"] = [40, 32]
    mixed = 8 if absolute else 4
    for i in range(2):
        attention, rest = f"layers.{i}.0.fn.", f"layers.{i}.1."
        expected |= {f"layers.{i}.0.norm.weight": [32], f"layers.{i}.0.norm.bias": [32]}
        expected |= {attention + "to_qkv.weight": [72, 32]}
        expected |= {attention + "to_q_attn_logits.weight": [1, 8]}
        expected |= {attention + "to_k_attn_logits.weight": [1, mixed]}
        expected |= {attention + "to_r.weight": [8, mixed], attention + "to_r.bias": [8]}
        expected |= {attention + "to_out.weight": [32, 24], attention + "to_out.bias": [32]}
        if not absolute:
            expected |= {attention + "pos_emb.freqs": [2]}
        expected |= {rest + "norm.weight": [32], rest + "norm.bias": [32]}
        expected |= {rest + "fn.0.weight": [64, 32], rest + "fn.0.bias": [64]}
        expected |= {rest + "fn.2.weight": [32, 64], rest + "fn.2.bias": [32]}
    if head == "lm":
        expected |= {"to_logits.0.weight": [32], "to_logits.0.bias": [32]}
        expected |= {"to_logits.1.weight": [100, 32], "to_logits.1.bias": [100]}
    else:
        expected |= {"pooler.att_fc1.weight": [32, 32], "pooler.att_fc1.bias": [32]}
        expected |= {"pooler.att_fc2.weight": [1, 32], "pooler.att_fc2.bias": [1]}
        expected = {f"fastformer_model.{key}": shape for key, shape in expected.items()}
        expected |= {"dense_linear.weight": [5, 32], "dense_linear.bias": [5]}
    assert shapes == expected


@pytest.mark.parametrize("side", SIDES)
def test_projections_are_tied(ask, side):
    """Their gradient is the sum over the layers: a change of the one tensor moves every layer."""
    config = CONFIGS["default"]
    state = perturbed(json.loads(str(ask(side, config)["shapes"])))
    inputs = make_inputs(config, 3)
    answer = ask(side, config, state, inputs, "float64")
    for tied in ("to_q_attn_logits", "to_k_attn_logits"):
        assert [key for key in answer if tied in key] == [f"grad/layers.0.0.fn.{tied}.weight"]
        first, second = (f"layers.{i}.0.fn.{tied}.weight" for i in range(2))
        step = 1e-5 * np.eye(8)[3:4]
        ends = []
        for sign in (1, -1):
            moved = state[first] + sign * step
            moved = state | {first: moved, second: moved}
            ends.append(ask(side, config, moved, inputs, "float64")["loss"])
        slope = (ends[0] - ends[1]) / 2e-5
        assert abs(slope - answer[f"grad/{first}"][0, 3]) <= 1e-6 * abs(slope)


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("side", SIDES)
def test_masks(ask, side, absolute):
    config = CONFIGS["default"] | {"absolute_pos_emb": absolute}
    state = perturbed(json.loads(str(ask(side, config)["shapes"])))
    ids = make_inputs(config, 3, mask="default", masked_rows=True)["input_ids"]
    logits = [
        ask(side, config, state, {"input_ids": ids} | mask, "float64")["logits"]
        for mask in (
            {},
            {"attention_mask": ids != 0},
            {"attention_mask": (ids != 0).astype(np.int64)},
            {"attention_mask": 3 * (ids != 0).astype(np.int32)},
        )
    ]
    for other in logits[1:]:
        assert np.array_equal(logits[0], other)
    assert np.isfinite(logits[0]).all()  # a row of padding alone has equal weights
    # What stands in the padding does not matter to the other tokens; rows do not see each other.
    masked = {"input_ids": np.where(ids == 0, 7, ids), "attention_mask": ids != 0}
    other = ask(side, config, state, masked, "float64")["logits"]
    kept = ids != 0
    assert np.abs(other[kept] - logits[0][kept]).max() <= 1e-12 * np.abs(logits[0]).max()
    assert np.abs(other[~kept] - logits[0][~kept]).max() > 1e-3
    alone = ask(side, config, state, {"input_ids": ids[1:2]}, "float64")["logits"]
    assert np.abs(alone[0] - logits[0][1]).max() <= 1e-12 * np.abs(logits[0]).max()


@pytest.mark.parametrize("side", SIDES)
def test_padding_is_pooled(ask, side):
    """As in seed 001: the classification head's pooling has no mask."""
    config = CONFIGS["default"] | {"head": "classification"}
    state = perturbed(json.loads(str(ask(side, config)["shapes"])))
    ids = make_inputs(config, 3)["input_ids"][1:2]
    mask = ids != 0
    logits = [
        ask(side, config, state, {"input_ids": row, "attention_mask": mask}, "float64")["logits"]
        for row in (ids, np.where(mask, ids, 7))
    ]
    assert np.abs(logits[0] - logits[1]).max() > 1e-3


def test_dropout(ask):
    """Before the pooling, in training only, the same on both sides."""
    config = CONFIGS["default"] | {"head": "classification", "dropout": 0.5}
    inputs = make_inputs(config, 5)
    state = perturbed(json.loads(str(ask("torch", config)["shapes"])))
    torch, paddle = (ask(side, config, state, inputs, "float64", True) for side in SIDES)
    assert np.abs(torch["logits"] - paddle["logits"]).max() <= 1e-12 * np.abs(torch["logits"]).max()
    quiet = ask("torch", config, state, inputs, "float64")
    assert np.abs(torch["logits"] - quiet["logits"]).max() > 1e-3


@pytest.mark.parametrize("side", SIDES)
def test_too_many_tokens(ask, side):
    answer = ask(side, CONFIGS["default"], None, {"input_ids": np.ones([1, 41], np.int64)})
    assert str(answer["error"]) == (
        "fast_transformer: input_ids has 41 tokens; allowed: up to max_seq_len, which is 40."
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"head": "none"}, "head is 'none'; allowed: 'lm', 'classification'."),
        (
            {"heats": 8},
            "unknown option 'heats'; allowed: num_tokens, dim, depth, max_seq_len, heads, "
            "dim_head, ff_mult, absolute_pos_emb, head, num_labels, dropout.",
        ),
        ({"depth": 0}, "depth is 0; allowed: an integer from 1."),
        ({"dim": None}, "dim is None; allowed: an integer from 1."),
        ({"absolute_pos_emb": 1}, "absolute_pos_emb is 1; allowed: True, False."),
        (
            {"absolute_pos_emb": False, "dim_head": 6},
            "dim_head is 6; allowed with rotary positions: a multiple of 4.",
        ),
        ({"dropout": -0.1}, "dropout is -0.1; allowed: from 0 to below 1."),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(change, text):
    with pytest.raises(ValueError) as caught:
        complete(CONFIGS["default"] | change)
    assert str(caught.value) == f"fast_transformer: {text}"


def test_inputs_reach_the_edges():
    for name, config in CONFIGS.items():
        inputs = make_inputs(config, 0, masked_rows=True)
        ids, labels = inputs["input_ids"], inputs["labels"]
        assert ids.dtype == labels.dtype == np.int64, name
        lengths = (ids != 0).sum(1)
        assert lengths[0] == ids.shape[1] == config["max_seq_len"]
        assert 0 < lengths[1] < lengths[0] and lengths[2] == 0
        assert ids[1, 0] == ids[1, 1] and 0 <= ids.max() < config["num_tokens"]
        if config["head"] == "lm":
            assert labels.shape == ids.shape and labels.max() < config["num_tokens"]
            assert (labels == -100).any() and (labels >= 0).any(1).all()
        else:
            assert set(labels) < set(range(config["num_labels"])) and labels.any()
        again = make_inputs(config, 0, masked_rows=True)
        assert all(np.array_equal(inputs[key], again[key]) for key in inputs)
    with pytest.raises(ValueError, match="mask is 'none'; allowed: 'explicit'"):
        make_inputs(CONFIGS["default"], 0, mask="none")


@pytest.mark.parametrize("preset", ["default", "rotary"])
def test_default_is_small(ask, preset):
    shapes = json.loads(str(ask("torch", CONFIGS[preset])["shapes"]))
    assert sum(np.prod(shape) for shape in shapes.values()) <= 40_000
