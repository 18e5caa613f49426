"""fastformer and fast_transformer: both twins against the reference, each other and NumPy."""

import importlib

import numpy as np
import pytest
from builders import assert_gradients, golden
from one_side import load

SIDES = ("torch", "paddle")
MODELS = ("fastformer", "fast_transformer")
CASE = {name: importlib.import_module(f"twincheck.common.models.{name}.case") for name in MODELS}
DEFAULT = {name: CASE[name].CONFIGS["default"] for name in MODELS}
LUCID = {"num_tokens": 100, "depth": 2, "absolute_pos_emb": True}
# The golden files' models: case -> model, file, configuration.
GOLDEN = {
    "fastformer": (
        "fastformer",
        "fastformer_wuch15_b",
        {
            "_name": "Fastformer",  # a key of the authors' file that no model needs
            "vocab_size": 100,
            "hidden_size": 48,
            "hidden_dropout_prob": 0.0,
            "num_hidden_layers": 2,
            "hidden_act": "gelu",
            "num_attention_heads": 6,
            "intermediate_size": 40,
            "max_position_embeddings": 40,
            "layer_norm_eps": 1e-12,
            "initializer_range": 0.02,
            "pooler_type": "weightpooler",
            "num_labels": 4,
        },
    ),
    "lucid_abs": (
        "fast_transformer",
        "fast_transformer_lucid",
        LUCID | {"dim": 32, "max_seq_len": 64, "heads": 4, "dim_head": 16, "head": "lm"},
    ),
    "seed001_cls_b": (
        "fast_transformer",
        "fast_transformer_lucid",
        LUCID
        | {"dim": 40, "max_seq_len": 48, "heads": 8, "dim_head": 12}
        | {"head": "classification", "num_labels": 5},
    ),
}


def perturbed(model, config, seed=0):
    """Weights in which no bias is 0 and no gain 1, float64, torch's layout; ties are kept."""
    rng = np.random.default_rng(seed)
    state = {}
    for key, shape in load("torch", model).shapes(config).items():
        first = key
        for tied in ("to_q_attn_logits", "to_k_attn_logits"):
            if tied in key:
                first = key[: key.index("layers.")] + f"layers.0.0.fn.{tied}.weight"
        if first in state:
            state[key] = state[first]
        elif key.endswith("pos_emb.freqs"):
            state[key] = 10000.0 ** -(np.arange(shape[0]) / shape[0])
        else:
            norm = ("norm" in key.lower() or "to_logits.0" in key) and key.endswith("weight")
            # fast_transformer's embeddings as in the reference: Paddle keeps LayerNorm's 1e-5 in
            # float32, and on vectors much smaller than 1 that alone is more than the 1e-12 asked
            # for below.
            scale = 1.0 if "_emb.weight" in key else 0.2 if norm or model != "fastformer" else 0.3
            state[key] = scale * rng.standard_normal(shape) + (1.0 if norm else 0.0)
    return state


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN)
@pytest.mark.parametrize("side", SIDES)
def test_golden(side, case):
    model, file, config = GOLDEN[case]
    arrays = golden(file, case)
    names = {"ids": "input_ids", "mask": "attention_mask", "labels": "labels"}
    inputs = {name: arrays["in"][key] for key, name in names.items() if key in arrays["in"]}
    assert len(inputs) == 2 + (model == "fast_transformer")
    answer = load(side, model).run(config, arrays["sd"], inputs, "float32", train=True)
    logits = arrays["out"]["score" if model == "fastformer" else "y"]
    assert np.abs(answer["out/logits"] - logits).max() <= 1e-5
    assert abs(answer["loss"] - arrays["out"]["loss"]) <= 1e-5
    grads = {key[5:]: values for key, values in answer.items() if key.startswith("grad/")}
    assert_gradients(grads, arrays["grad"])  # tied projections once, under their first name
    # Padding is a word like any other; in fastformer alone it learns nothing.
    ending = ("word_embedding.weight", "token_emb.weight")
    (words,) = (name for name in grads if name.endswith(ending))
    assert grads[words][0].any() == (model != "fastformer") and arrays["sd"][words][0].any()


def norm(state, prefix, x, epsilon):
    """LayerNorm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return scaled * state[f"{prefix}.weight"] + state[f"{prefix}.bias"]


def linear(state, name, x):
    """A Linear of that name."""
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def softmax(logits):
    """Over the first axis."""
    exps = np.exp(logits - logits.max(0))
    return exps / exps.sum(0)


def turn(x, freqs):
    """Rotary positions by complex numbers: x (T, D) -> its first half turned, (T, D)"""
    half = 2 * len(freqs)
    points = x[:, 0:half:2] + 1j * x[:, 1:half:2]
    points = points * np.exp(1j * np.arange(len(x))[:, None] * freqs)
    turned = x.copy()
    turned[:, 0:half:2], turned[:, 1:half:2] = points.real, points.imag
    return turned


def lucid_attention(state, prefix, x, mask, heads, width):
    """One row and one head after the other in NumPy: x (T, C), mask (T) bool -> (T, C)"""

    def weights(vectors, name):
        logits = vectors @ state[f"{prefix}.{name}.weight"][0] / width**0.5
        return softmax(np.where(mask, logits, -np.finfo(np.float64).max))

    qkv = x @ state[f"{prefix}.to_qkv.weight"].T
    freqs = state[f"{prefix}.pos_emb.freqs"]
    parts = []
    for head in range(heads):
        q, k, v = (
            qkv[:, (i * heads + head) * width : (i * heads + head + 1) * width] for i in range(3)
        )
        tq, tk, tv = (turn(part, freqs) for part in (q, k, v))
        mixed = k * (weights(q, "to_q_attn_logits") @ tq)
        mixed = mixed[:, ::2] + mixed[:, 1::2]
        u = tv * (weights(mixed, "to_k_attn_logits") @ tk)
        u = u[:, ::2] + u[:, 1::2]
        parts.append(linear(state, f"{prefix}.to_r", u) + q)
    return linear(state, f"{prefix}.to_out", np.concatenate(parts, 1))


def test_maths_of_fast_transformer_by_hand():
    """Rotary, and without feed-forward: its last Linear is 0, so that no erf is needed."""
    config = DEFAULT["fast_transformer"] | {"absolute_pos_emb": False, "max_seq_len": 11}
    state = perturbed("fast_transformer", config)
    state |= {key: 0 * values for key, values in state.items() if ".1.fn.2." in key}
    inputs = CASE["fast_transformer"].make_inputs(config, 2, mask="holes", masked_rows=True)
    logits = load("torch", "fast_transformer").outputs(config, state, inputs)["logits"]
    for row, ids in enumerate(inputs["input_ids"]):
        x = state["token_emb.weight"][ids]
        for i in range(2):
            y, mask = norm(state, f"layers.{i}.0.norm", x, 1e-5), inputs["attention_mask"][row]
            x = x + lucid_attention(state, f"layers.{i}.0.fn", y, mask, 3, 8)
        expected = linear(state, "to_logits.1", norm(state, "to_logits.0", x, 1e-5))
        assert np.abs(logits[row] - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("change", [None, {"absolute_pos_emb": True}, {"absolute_pos_emb": False}])
@pytest.mark.parametrize("side", SIDES)
def test_masks(side, change):
    model = "fast_transformer" if change else "fastformer"
    config = DEFAULT[model] | (change or {})
    state = perturbed(model, config)
    ids = CASE[model].make_inputs(config, 3, mask="default", masked_rows=True)["input_ids"]
    kept = ids != 0

    def logits(ids, **mask):
        return load(side, model).outputs(config, state, {"input_ids": ids} | mask)["logits"]

    known = logits(ids)
    last = kept.astype(np.float64) if model == "fastformer" else 3 * kept.astype(np.int32)
    for mask in (kept, kept.astype(np.int64), last):
        assert np.array_equal(known, logits(ids, attention_mask=mask))
    # What stands in the padding does not matter; rows do not see each other.
    other = logits(np.where(kept, ids, 7), attention_mask=kept)
    alone = logits(ids[1:2])
    if model == "fastformer":
        # A row of padding alone is pooled to nothing: the head's bias is left.
        assert np.array_equal(known[-1], state["dense_linear.bias"])
        bound, kept = 1e-12, np.s_[:2]
    else:
        assert np.isfinite(known).all()  # a row of padding alone has equal weights
        assert np.abs(other[~kept] - known[~kept]).max() > 1e-3
        bound = 1e-12 * np.abs(known).max()
    assert np.abs(other[kept] - known[kept]).max() <= bound
    assert np.abs(alone[0] - known[1]).max() <= bound


LONGEST = {"fastformer": "max_position_embeddings", "fast_transformer": "max_seq_len"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("side", SIDES)
def test_too_many_tokens(model, side):
    with pytest.raises(ValueError) as caught:
        load(side, model).outputs(DEFAULT[model], None, {"input_ids": np.ones([1, 41], np.int64)})
    expected = f"input_ids has 41 tokens; allowed: up to {LONGEST[model]}, which is 40."
    assert str(caught.value) == f"{model}: {expected}"
