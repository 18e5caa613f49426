"""Reformer: both twins against the reference program, each other, plain autograd and the paper."""

import importlib
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builders import assert_gradients, golden
from one_side import load

from twincheck.common.models.reformer.case import (
    CASES,
    CONFIGS,
    bucket_factors,
    complete,
    make_inputs,
)
from twincheck.common.sides.session import Session, using

HERE = Path(__file__).resolve().parent
SIDES = ("torch", "paddle")
HEADS = {
    "ReformerModel": "none",
    "ReformerModelWithLMHead": "lm",
    "ReformerForSequenceClassification": "classification",
    "ReformerForQuestionAnswering": "question_answering",
}
with open(HERE / "goldens" / "reformer_hf4576.json", encoding="utf-8") as file:
    GOLDENS = {
        name: row["config"] | {"head": HEADS[row["class"]]} for name, row in json.load(file).items()
    }
SMALL = CONFIGS["default"]


@pytest.fixture(params=SIDES)
def one(request):
    """Each side in turn."""
    return load(request.param)


@cache
def perturbed(config_text, seed=0):
    """Weights in which no bias is 0 and no gain 1, float64, torch's layout; aliases stay equal."""
    config = json.loads(config_text)
    rng = np.random.default_rng(seed)
    state = {}
    for key, shape in load("torch").shapes(config).items():
        noise = rng.standard_normal(shape)
        if key == "lm_head.decoder.bias":
            state[key] = state["lm_head.bias"]
        elif "layer_norm.weight" in key:
            state[key] = 1.0 + 0.2 * noise
        else:
            state[key] = noise * (0.1 if len(shape) == 1 else shape[-1] ** -0.5)
    return state


def weights_for(config):
    """`perturbed`, for a dict."""
    return perturbed(json.dumps(config))


def largest(arrays):
    """The largest absolute value of several arrays."""
    return max(np.abs(values).max() for values in arrays)


def assert_equal(found, expected, bound):
    """Floats within bound x scale (a gradient's scale is the largest of all); integers equal."""
    assert set(found) == set(expected)
    scale_of_gradients = largest([v for k, v in expected.items() if k.startswith("grad/")] + [1e-9])
    for key, values in expected.items():
        assert found[key].shape == values.shape and found[key].dtype == values.dtype, key
        if values.dtype.kind != "f":
            assert np.array_equal(found[key], values), key
            continue
        scale = scale_of_gradients if key.startswith("grad/") else np.abs(values).max()
        assert np.abs(found[key] - values).max() <= bound * scale, key


# ---- the reference ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(one, name):
    """Outputs, the loss and every gradient of transformers 4.57.6, on its weights and rotations."""
    arrays = golden("reformer_hf4576", name)
    train = bool(arrays["grad"])
    model = one.build(GOLDENS[name], arrays["sd"], "float32", train)
    inputs = one.tensors(arrays["in"])
    if "" in arrays["rotations"]:
        inputs["rotations"] = one.side.tensor(arrays["rotations"][""])
    outputs = one.call(model, inputs, output_hidden_states=True)
    for key, expected in arrays["out"].items():
        if key.startswith("hidden_"):
            found = outputs["hidden_states"][int(key.removeprefix("hidden_"))]
        else:
            found = one.models.loss(outputs, inputs) if key == "loss" else outputs[key]
        assert np.abs(one.side.array(found) - expected).max() <= 1e-5, key
    if not train:
        return
    one.models.loss(outputs, inputs).backward()
    assert_gradients(one.gradients(model), arrays["grad"])  # the tied bias once


@pytest.mark.parametrize("name", ["lsh_model_forward", "local_lm_model_grad"])
def test_initial_weights_are_the_reference_s(name):
    """From torch's seed 0: modules are made and drawn in the same order.

    But for the last bits, since torch draws normal numbers in one way where there is AVX2, and in
    another where there is none.
    """
    side = load("torch")
    state = side.side.state(side.build(GOLDENS[name], dtype="float32"))
    for key, expected in golden("reformer_hf4576", name)["sd"].items():
        np.testing.assert_allclose(state[key], expected, rtol=1e-5, atol=2e-6, err_msg=key)


@pytest.mark.parametrize(
    ("preset", "parameters", "entries"),
    [("enwik8", 149_182_722, 149), ("crime-and-punishment", 2_748_224, 77)],
)
def test_published_sizes(preset, parameters, entries):
    torch = importlib.import_module("torch")
    side = load("torch")
    side.side.set_up("float32", "cpu", 0)
    with torch.device("meta"):
        model = side.models.build(CONFIGS[preset])
    assert sum(value.numel() for value in model.parameters()) == parameters
    assert len(model.state_dict()) == entries


# ---- the two sides ------------------------------------------------------------------------------


def training_config(**changes):
    """The default with dropout 0.2 in every place and three hash rounds."""
    places = ("hidden", "local_attention_probs", "lsh_attention_probs")
    rates = {f"{place}_dropout_prob": 0.2 for place in places}
    return SMALL | rates | {"num_hashes": 3} | changes


def logged(one):
    """Return all that is looked at in one run of the default."""
    log = {}
    one.run(SMALL, weights_for(SMALL), make_inputs(SMALL, 0), record=log.__setitem__)
    return log


LOCAL = """
:in/1 attention.layer_norm attention.output:in/0 attention.output.dense prev_attn_output attn_output
prev_hidden_states feed_forward.layer_norm feed_forward.dense feed_forward.output.dense
hidden_states
"""
LOCAL_ATTENTION = """
query key value query_heads key_heads value_heads key_scaled position_indices query_key_dots mask
dots_masked logits attention_probs context context_merged
"""
LSH_ATTENTION = """
query_key_heads value_heads hash_rotations rotated_vectors bucket_choice bucket_choice#2 buckets
sorted_order undo_order key_normalised query_key_dots mask dots_masked self_mask dots_self_masked
logits attention_probs context context_sorted logits_sorted context_unsorted logits_unsorted
merge_weights context_rounds_merged context_merged
"""


def test_every_intermediate_is_a_probe(one):
    """The 26 tensors of a local layer that seed 003 compared, and those of an LSH layer."""
    log, local = logged(one), "reformer.encoder.layers.1."
    names = [(local + name).replace(".:", ":") for name in LOCAL.split()]
    names += [f"{local}attention.self_attention.{name}" for name in LOCAL_ATTENTION.split()]
    assert len(names) == 26
    own = "reformer.encoder.layers.0.attention.self_attention."
    names += [own + name for name in LSH_ATTENTION.split()]
    assert set(names) <= set(log), set(names) - set(log)
    assert log[own + "buckets"].dtype == log[own + "sorted_order"].dtype == np.int64
    assert log[own + "buckets"].max() == 8  # hidden tokens have a bucket of their own


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", CASES["default"])
def test_what_is_looked_at_is_what_runs(one, name, train):
    """The softmax that is written out for the probes, and the one operator without: every output,
    loss and gradient; float32 too, where a mask hides all that a query might see."""
    row = CASES["default"][name]
    config = (training_config() if train else SMALL) | row.get("config", {})
    options = row.get("inputs", {}) | ({"length": 48} if train else {})
    inputs, state = make_inputs(config, 1, **options), weights_for(config)
    for dtype, bound in (("float64", 1e-11), ("float32", 1e-4)):
        log = {}
        looked_at = one.run(config, state, inputs, dtype, train, record=log.__setitem__)
        assert any(key.endswith("attention_probs") for key in log)
        assert_equal(one.run(config, state, inputs, dtype, train), looked_at, bound)


# ---- reversible layers --------------------------------------------------------------------------


def plain(one, monkeypatch):
    """Let autograd keep everything, as for any other layers."""
    apply = staticmethod(lambda embeddings, encoder, run: encoder.run_layers(embeddings, run))
    monkeypatch.setattr(one.models.ReversibleLayers, "apply", apply)


@pytest.mark.parametrize("train", [False, True])
def test_reversible_is_plain_autograd(one, monkeypatch, train):
    config = training_config()
    inputs = make_inputs(config, 2, length=48)
    state = weights_for(config)
    found = one.run(config, state, inputs, train=train)
    plain(one, monkeypatch)
    assert_equal(found, one.run(config, state, inputs, train=train), 1e-12)


def kept_floats(one, layers):
    """Count the numbers that the forward pass keeps for the backward pass, and their tensors."""
    config = training_config(attn_layers=["lsh", "local"] * (layers // 2), head="none")
    model = one.build(config, train=True)
    inputs = one.tensors(make_inputs(config, 0, length=48))
    sizes = []

    def pack(value):
        # Parameters and integers are no activations.
        if one.side.is_float(value) and not any(value is p for p in model.parameters()):
            sizes.append(int(np.prod(value.shape)))
        return value

    hooks = one.framework.autograd
    hooks = hooks.graph.saved_tensors_hooks if one.name == "torch" else hooks.saved_tensors_hooks
    with using(Session()), hooks(pack, lambda value: value):
        outputs = one.call(model, inputs)
    assert list(outputs["last_hidden_state"].shape) == [3, 48, 64]
    return sum(sizes), len(sizes)


def test_activations_do_not_grow_with_depth(one, monkeypatch):
    shallow, deep = kept_floats(one, 2), kept_floats(one, 12)
    assert shallow == deep and shallow[0] > 0
    plain(one, monkeypatch)  # and the count can tell
    assert kept_floats(one, 12)[0] > 5 * kept_floats(one, 2)[0] > 10 * deep[0]


def test_two_calls_before_one_backward(one):
    """Each call's recomputation sees its own dropout masks and buckets."""
    config = training_config(head="none")
    state = weights_for(config)
    first, second = (make_inputs(config, seed, length=48) for seed in (0, 1))
    model = one.build(config, state, train=True)
    with using(Session()):
        inputs = [one.tensors(arrays) for arrays in (first, second)]
        losses = [one.models.loss(one.call(model, given), given) for given in inputs]
        (losses[0] + losses[1]).backward()
    both = one.gradients(model)
    apart = {}
    for i in range(2):
        model = one.build(config, state, train=True)
        with using(Session()):
            losses = [one.models.loss(one.call(model, given), given) for given in inputs]
            losses[i].backward()
        for name, values in one.gradients(model).items():
            apart[name] = apart.get(name, 0) + values
    for name, values in both.items():
        assert np.abs(values - apart[name]).max() <= 1e-12 * largest(both.values()), name


# ---- single parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 8, 40])
def test_chunks_change_nothing(one, size):
    """Chunked feed-forward and LM head, without dropout."""
    inputs = make_inputs(SMALL, 3, length=40)
    whole = one.run(SMALL, weights_for(SMALL), inputs)
    chunked = SMALL | {"chunk_size_feed_forward": size, "chunk_size_lm_head": size}
    assert_equal(one.run(chunked, weights_for(SMALL), inputs), whole, 1e-12)


def test_tokens_shorter_than_a_chunk_are_one_chunk(one):
    """Then LSH attention hashes nothing, and both kinds see all tokens."""
    log = {}
    config = SMALL | {"attn_layers": ["lsh"], "lsh_attn_chunk_length": 16, "is_decoder": False}
    config |= {"head": "none"}
    inputs = make_inputs(config, 0, length=16, mask="none")
    one.run(config, weights_for(config), inputs, record=log.__setitem__)
    own = "encoder.layers.0.attention.self_attention."
    assert own + "buckets" not in log and log[own + "query_key_dots"].shape == (3, 2, 1, 16, 16)
    probs = log[own + "attention_probs"]
    assert np.allclose(probs.sum(-1), 1.0)
    assert largest([np.diagonal(probs, axis1=-2, axis2=-1)]) < 1e-300  # no token sees itself


TRUNK = SMALL | {"head": "none"}


def last_hidden_state(one, model, **inputs):
    with using(Session()):
        return one.side.array(one.call(model, one.tensors(inputs))["last_hidden_state"])


def test_rotations_are_an_input(one):
    """One for each LSH layer, or one for all; others are refused with both shapes."""
    model = one.build(TRUNK, weights_for(TRUNK))
    ids = make_inputs(TRUNK, 0)["input_ids"]
    shared = np.random.default_rng(0).standard_normal([2, 8, 2, 3])

    def call(rotations):
        return last_hidden_state(one, model, input_ids=ids, rotations=rotations)

    assert np.array_equal(call(shared), call(np.stack([shared, shared])))
    assert not np.allclose(call(shared), call(np.stack([shared, -shared[:, :, ::-1]])))
    with pytest.raises(ValueError) as caught:
        call(np.stack([shared] * 3))
    assert str(caught.value) == (
        "reformer: rotations have shape [3, 2, 8, 2, 3]; allowed: 5 axes, the first of size 2 "
        "(LSH layers), or the other 4 alone."
    )
    with pytest.raises(ValueError, match=r"shape \[2, 8, 2, 2\]; allowed: \[2, 8, 2, 3\]"):
        call(shared[..., :2])


@pytest.mark.parametrize(
    ("length", "factors"),
    # Two buckets a chunk of 4; above 2 * max(int(sqrt(max_position_embeddings // 4)), 4) in two.
    [(8, [4]), (16, [8]), (40, [4, 4]), (64, [4, 8]), (100, [4, 8]), (1024, [16, 32])],
)
def test_number_of_buckets_follows_the_length(length, factors):
    config = complete(SMALL | {"num_buckets": None, "max_position_embeddings": 64})
    assert bucket_factors(config, length) == factors


# ---- errors and inputs --------------------------------------------------------------------------


LONG = "80 tokens; allowed: up to 48, the number of positions."
PLACES = "40 tokens; allowed in training: 48, the product of axial_pos_shape, which is [6, 8]."
CHUNKS = "chunk_size_feed_forward is 7; allowed: 0, or a divisor of 40 tokens."


@pytest.mark.parametrize(
    ("length", "train", "change", "text"),
    [
        (36, True, {}, "36 tokens; allowed in training: a multiple of 8, or up to 4."),
        (40, True, {}, PLACES),
        (49, False, {}, "49 tokens, 56 when padded; allowed: up to 48, the number of positions."),
        (80, False, {"axial_pos_embds": False}, LONG),
        (40, False, {"chunk_size_feed_forward": 7}, CHUNKS),
    ],
)
def test_lengths_that_do_not_fit(one, length, train, change, text):
    model = one.build(SMALL | change, train=train)
    ids = one.tensors({"input_ids": np.ones([1, length], np.int64)})
    with pytest.raises(ValueError) as caught:
        one.call(model, ids)
    assert str(caught.value) == f"reformer: {'' if text is CHUNKS else 'input_ids has '}{text}"


def test_inputs_reach_the_edges():
    for name, row in CASES["default"].items():
        config = SMALL | row.get("config", {})
        inputs = make_inputs(config, 0, **row.get("inputs", {}))
        ids = inputs["input_ids"]
        assert ids.dtype == np.int64 and 0 <= ids.max() < config["vocab_size"], name
        lengths = (ids != 0).sum(1)
        assert len(ids) == 3 and lengths[0] == ids.shape[1] > lengths[1] > lengths[2]
        masked = row.get("inputs", {}).get("masked_rows", False)
        assert masked == ("masked_rows" in name) == (lengths[2] == 0)
        if "labels" in inputs and inputs["labels"].ndim == 2:
            assert (inputs["labels"] == -100).any()
    heads = {row.get("config", {}).get("head", "lm") for row in CASES["default"].values()}
    assert heads == {*HEADS.values(), "masked_lm"}
    assert [row["weights"] for row in CASES["default"].values()].count("initial") == 1
    with pytest.raises(ValueError, match="mask is 'all'; allowed: 'explicit', 'none', 'holes'."):
        make_inputs(SMALL, 0, mask="all")
