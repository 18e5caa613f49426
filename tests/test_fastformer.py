"""fastformer: both twins against the authors' program, and against each other in float64."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from checkout import Checkout

from common.models.fastformer.case import CASES, CONFIGS, complete, make_inputs

HERE = Path(__file__).resolve().parent
SIDES = ("torch", "paddle")
# The golden file's model: hidden 48, 2 layers, 6 heads.
GOLDEN_CONFIG = {
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
        print("fastformer", request, answer, sep="\t", file=processes[side].stdin, flush=True)
        assert processes[side].stdout.readline() == "done\n"
        with np.load(answer, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    yield run
    for process in processes.values():
        process.communicate()


def golden():
    """The arrays of the authors' program, by kind: sd, in, out, grad."""
    with np.load(HERE / "goldens" / "fastformer_wuch15_b.npz", allow_pickle=False) as file:
        kinds = {kind: {} for kind in ("sd", "in", "out", "grad")}
        for key in file.files:
            kind, _, name = key.partition("/")
            if kind in kinds:
                kinds[kind][name] = file[key]
    return kinds


def perturbed(shapes, seed=0):
    """Weights in which no bias is 0 and no gain 1, float64, torch's layout."""
    rng = np.random.default_rng(seed)
    state = {}
    for key, shape in shapes.items():
        noise = rng.standard_normal(shape)
        norm = "LayerNorm" in key and key.endswith("weight")
        state[key] = 0.2 * noise + 1.0 if norm else 0.3 * noise
    return state


def largest(grads):
    """The largest gradient of a case."""
    return max(np.abs(values).max() for values in grads.values())


@pytest.mark.parametrize("side", SIDES)
def test_golden(ask, side):
    arrays = golden()
    inputs = {"input_ids": arrays["in"]["ids"], "labels": arrays["in"]["labels"]}
    answer = ask(side, GOLDEN_CONFIG, arrays["sd"], inputs, train=True)
    assert answer["error"] == ""
    assert set(json.loads(str(answer["keys"]))) == set(arrays["sd"])
    assert np.abs(answer["logits"] - arrays["out"]["score"]).max() <= 1e-5
    assert abs(answer["loss"] - arrays["out"]["loss"]) <= 1e-5
    grads = {key[5:]: values for key, values in answer.items() if key.startswith("grad/")}
    assert set(grads) == set(arrays["grad"])
    whole = largest(arrays["grad"])
    for name, expected in arrays["grad"].items():
        scale = np.abs(expected).max()
        # A bias before a softmax moves nothing: its gradient is noise, seen below 1e-7.
        scale = whole if scale < 1e-6 * whole else scale
        assert np.abs(grads[name] - expected).max() <= 1e-5 * scale, name
    assert not grads["word_embedding.weight"][0].any()  # padding learns nothing …
    assert arrays["sd"]["word_embedding.weight"][0].any()  # … though it is a word like any other


@pytest.mark.parametrize("name", CASES["default"])
def test_sides_agree_in_float64(ask, name):
    row = CASES["default"][name]
    config = CONFIGS["default"] | row.get("config", {})
    inputs = make_inputs(config, 1, **row.get("inputs", {}))
    shapes = json.loads(str(ask("torch", config)["shapes"]))
    torch, paddle = (ask(side, config, perturbed(shapes), inputs, "float64") for side in SIDES)
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


def attention(state, prefix, x, bias, heads):
    """Section 3.2 for one row in NumPy: x (T, C), bias (T) -> (T, C)"""

    def linear(name, values):
        return values @ state[f"{prefix}.{name}.weight"].T + state[f"{prefix}.{name}.bias"]

    def softmax(logits):
        exps = np.exp(logits - logits.max(0))
        return exps / exps.sum(0)

    width = x.shape[1] // heads
    query, key = linear("query", x), linear("key", x)
    alpha = softmax(linear("query_att", query) / width**0.5 + bias[:, None])  # (T, H)
    global_query = (np.repeat(alpha, width, 1) * query).sum(0)
    mixed = global_query * key
    beta = softmax(linear("key_att", mixed) / width**0.5 + bias[:, None])
    global_key = (np.repeat(beta, width, 1) * mixed).sum(0)
    return linear("transform", global_key * query) + query


def norm(state, prefix, x):
    """LayerNorm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * state[f"{prefix}.weight"] + state[f"{prefix}.bias"]


def test_maths_by_hand(ask):
    config = CONFIGS["default"] | {"hidden_act": "relu", "num_hidden_layers": 1}
    shapes = json.loads(str(ask("torch", config)["shapes"]))
    state = perturbed(shapes)
    inputs = make_inputs(config, 2, mask="holes", masked_rows=True)
    answer = ask("torch", config, state, inputs, "float64")

    def linear(name, values):
        return values @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    for row, ids in enumerate(inputs["input_ids"]):
        mask = inputs["attention_mask"][row].astype(float)
        trunk, layer = "fastformer_model", "fastformer_model.encoders.0"
        x = state["word_embedding.weight"][ids]
        x = norm(state, f"{trunk}.LayerNorm", x + state[f"{trunk}.position_embeddings.weight"])
        y = attention(state, f"{layer}.attention.self", x, (1 - mask) * -1e4, 4)
        x = norm(
            state,
            f"{layer}.attention.output.LayerNorm",
            x + linear(f"{layer}.attention.output.dense", y),
        )
        y = np.maximum(linear(f"{layer}.intermediate.dense", x), 0)
        x = norm(state, f"{layer}.output.LayerNorm", x + linear(f"{layer}.output.dense", y))
        e = np.tanh(linear(f"{trunk}.poolers.0.att_fc1", x))
        alpha = np.exp(linear(f"{trunk}.poolers.0.att_fc2", e)) * mask[:, None]
        pooled = (alpha / (alpha.sum() + 1e-8) * x).sum(0)
        expected = linear("dense_linear", pooled)
        assert np.abs(answer["logits"][row] - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("side", SIDES)
def test_masks(ask, side):
    config = CONFIGS["default"]
    state = perturbed(json.loads(str(ask(side, config)["shapes"])))
    inputs = make_inputs(config, 3, mask="default", masked_rows=True)
    ids = inputs["input_ids"]
    logits = [
        ask(side, config, state, {"input_ids": ids} | mask, "float64")["logits"]
        for mask in (
            {},
            {"attention_mask": ids != 0},
            {"attention_mask": (ids != 0).astype(np.int64)},
            {"attention_mask": (ids != 0).astype(np.float64)},
        )
    ]
    for other in logits[1:]:
        assert np.array_equal(logits[0], other)
    # A row of padding alone is pooled to nothing: the head's bias is left.
    assert np.array_equal(logits[0][-1], state["dense_linear.bias"])
    # What stands in the padding does not matter; rows do not see each other.
    noisy = np.where(ids == 0, 7, ids)
    masked = {"input_ids": noisy, "attention_mask": ids != 0}
    other = ask(side, config, state, masked, "float64")["logits"]
    assert np.abs(other[:2] - logits[0][:2]).max() <= 1e-12
    alone = ask(side, config, state, {"input_ids": ids[1:2]}, "float64")["logits"]
    assert np.abs(alone[0] - logits[0][1]).max() <= 1e-12


@pytest.mark.parametrize("side", SIDES)
def test_dropout_in_training_only(ask, side):
    config = CONFIGS["default"]
    inputs = {"input_ids": make_inputs(config, 4)["input_ids"]}
    state = perturbed(json.loads(str(ask(side, config)["shapes"])))
    quiet, loud = (
        ask(side, config, state, inputs, "float64", train)["logits"] for train in (False, True)
    )
    assert np.abs(quiet - loud).max() > 1e-3


def test_dropout_is_the_same_on_both_sides(ask):
    config = CONFIGS["default"] | {"hidden_dropout_prob": 0.5}
    inputs = make_inputs(config, 5)
    state = perturbed(json.loads(str(ask("torch", config)["shapes"])))
    torch, paddle = (ask(side, config, state, inputs, "float64", True) for side in SIDES)
    assert np.abs(torch["logits"] - paddle["logits"]).max() <= 1e-12 * np.abs(torch["logits"]).max()


@pytest.mark.parametrize("side", SIDES)
def test_too_many_tokens(ask, side):
    answer = ask(side, CONFIGS["default"], None, {"input_ids": np.ones([1, 41], np.int64)})
    assert str(answer["error"]) == (
        "fastformer: input_ids has 41 tokens; allowed: up to max_position_embeddings, which is 40."
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"head": "lm"}, "fastformer: head is 'lm'; allowed: 'classification'."),
        (
            {"hidden_act": "gleu"},
            "fastformer: hidden_act is 'gleu'; allowed: 'gelu', 'relu', 'silu', 'tanh'.",
        ),
        ({"pooler_type": "max"}, "fastformer: pooler_type is 'max'; allowed: 'weightpooler'."),
        ({"num_labels": 0}, "fastformer: num_labels is 0; allowed: an integer from 1."),
        ({"hidden_size": "32"}, "fastformer: hidden_size is '32'; allowed: an integer from 1."),
        (
            {"num_attention_heads": 5},
            "fastformer: hidden_size is 32; allowed: a multiple of num_attention_heads, "
            "which is 5.",
        ),
        (
            {"hidden_dropout_prob": 1.0},
            "fastformer: hidden_dropout_prob is 1.0; allowed: from 0 to below 1.",
        ),
        ({"layer_norm_eps": 0.0}, "fastformer: layer_norm_eps is 0.0; allowed: above 0."),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(change, text):
    with pytest.raises(ValueError) as caught:
        complete(CONFIGS["default"] | change)
    assert str(caught.value) == text


def test_inputs_reach_the_edges():
    for name, config in CONFIGS.items():
        inputs = make_inputs(config, 0, masked_rows=True)
        ids, labels = inputs["input_ids"], inputs["labels"]
        assert ids.dtype == labels.dtype == np.int64, name
        lengths = (ids != 0).sum(1)
        assert lengths[0] == ids.shape[1] == config["max_position_embeddings"]
        assert 0 < lengths[1] < lengths[0] and lengths[2] == 0
        assert ids[1, 0] == ids[1, 1] and 0 <= ids.max() < config["vocab_size"]
        assert set(labels) < set(range(config["num_labels"])) and labels.any()
        again = make_inputs(config, 0, masked_rows=True)
        assert all(np.array_equal(inputs[key], again[key]) for key in inputs)
    with pytest.raises(ValueError, match="mask is 'none'; allowed: 'explicit'"):
        make_inputs(CONFIGS["default"], 0, mask="none")


def test_default_is_small(ask):
    shapes = json.loads(str(ask("torch", CONFIGS["default"])["shapes"]))
    assert sum(np.prod(shape) for shape in shapes.values()) <= 40_000
