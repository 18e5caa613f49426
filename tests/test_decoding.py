"""Cached decoding: both sides against transformers' own cache, token by token, in float64."""

import json

import numpy as np
import pytest
import torch
from builders import ended
from checkout import Checkout
from hf_reformer import TINY, drawing, reference_model, state_of
from test_reformer import SMALL, load, weights_for

from twincheck.common.models.reformer.case import CASES, make_inputs
from twincheck.common.sides.probes import probing
from twincheck.common.sides.session import Session, using

BOUND = 1e-12  # of the scale; 2e-15 was measured
CONFIGS = {
    "local": {"attn_layers": ["local", "local"]},
    "local_two_before": {"attn_layers": ["local", "local"], "local_num_chunks_before": 2},
    "lsh": {"attn_layers": ["lsh", "lsh"], "num_hashes": 1},
    "mixed": {},
    "mixed_factors": {"num_buckets": [2, 4], "num_hashes": 3, "attn_layers": ["local", "lsh"]},
    "longer_lsh_chunks": {"lsh_attn_chunk_length": 8, "num_buckets": 2},
    "longer_local_chunks": {"local_attn_chunk_length": 8},
    "none_before": {"local_num_chunks_before": 0, "lsh_num_chunks_before": 0},
    "two_before_in_lsh": {"lsh_num_chunks_before": 2, "axial_pos_embds": False},
}
SIDES = ("torch", "paddle")


@pytest.fixture(params=SIDES)
def one(request):
    """Each side in turn."""
    return load(request.param)


class Theirs:
    """transformers' model, and what it said to every call: both sides are held against it."""

    made = {}

    def __init__(self, config, seed):
        self.model = reference_model(config, seed)
        self.state = state_of(self.model)
        self.cache = None
        self.said = []  # (the call, logits, each layer's buckets and states)

    @classmethod
    def of(cls, config, seed, *shape):
        """The one for these weights and inputs."""
        key = json.dumps([config, seed, shape], sort_keys=True)
        if key not in cls.made:
            cls.made[key] = cls(config, seed)
        return cls.made[key]

    def __call__(self, number, ids, masks, rotations_of):
        """Its logits and caches in the call of that number, which it makes once."""
        call = [ids.tolist(), [values.tolist() for values in masks.values()]]
        if number == len(self.said):
            with drawing(rotations_of), torch.no_grad():
                outputs = self.model(
                    torch.tensor(ids),
                    past_buckets_states=self.cache,
                    use_cache=True,
                    **{key: torch.tensor(values) for key, values in masks.items()},
                )
            self.cache = outputs["past_buckets_states"]
            kept = [(buckets.clone(), states.clone()) for buckets, states in self.cache]
            self.said.append((call, outputs["logits"], kept))
        asked, logits, kept = self.said[number]
        assert asked == call, "the sides are not fed alike"
        return logits, kept


class Both:
    """transformers' model and one side's, fed the same tokens and rotations."""

    def __init__(self, side, changes, batch=1, length=24, seed=0):
        self.side = side
        self.config = TINY | changes
        self.theirs = Theirs.of(self.config, seed, batch, length)
        self.model = side.build(self.config, self.theirs.state)
        self.rng = np.random.default_rng(seed)
        self.ids = self.rng.integers(1, self.config["vocab_size"], (batch, length))
        self.calls = 0
        self.caches = None, None

    def step(self, start, end, mask=None):
        """Feed tokens start to end; (transformers' outputs, ours)."""
        config = self.config
        layers = [i for i, kind in enumerate(config["attn_layers"]) if kind == "lsh"]
        buckets = config["num_buckets"] or 2 * (end // config["lsh_attn_chunk_length"])
        width = (sum(buckets) if isinstance(buckets, list) else buckets) // 2
        shape = [config["num_attention_heads"], config["attention_head_size"]]
        shape += [config["num_hashes"], width]
        drawn = self.rng.standard_normal([len(layers), *shape])
        ids = self.ids[:, start:end]
        masks = {} if mask is None else {"attention_mask": mask}
        theirs, kept = self.theirs(self.calls, ids, masks, lambda i, _: drawn[layers.index(i)])
        self.calls += 1
        inputs = self.side.tensors({"input_ids": ids, **masks})
        if layers:
            inputs["rotations"] = self.side.side.tensor(drawn)
        options = {"past_buckets_states": self.caches[1], "use_cache": True}
        ours = self.side.call(self.model, inputs, **options)
        self.caches = kept, ours["past_buckets_states"]
        return theirs, ours

    def goes_on(self, first, last):
        """Feed what follows a prompt token by token, and compare each."""
        for end in range(first, last):
            self.assert_equal(*self.step(end - 1, end))

    def assert_equal(self, theirs, ours):
        """Logits and every layer's cache."""
        self.assert_close(ours["logits"], theirs)
        assert isinstance(self.caches[1], tuple)
        for (buckets, states), (our_buckets, our_states) in zip(*self.caches, strict=True):
            self.assert_close(our_states, states)
            if buckets.numel() == 0:
                assert our_buckets is None
                continue
            found = self.side.side.array(our_buckets)
            assert found.dtype == np.int64
            assert np.array_equal(found, buckets.numpy().astype(np.int64))

    def assert_close(self, found, expected):
        found, expected = self.side.side.array(found), expected.numpy()
        assert found.dtype == np.float64 and found.shape == expected.shape
        assert np.abs(found - expected).max() <= BOUND * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [1, 4, 5, 11])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_caches_are_the_reference_s(one, name, prompt):
    """Prompts shorter than a chunk, of one, a little more, padded; past the ends of two chunks."""
    both = Both(one, CONFIGS[name], batch=1 + prompt % 2, length=prompt + 10)
    both.assert_equal(*both.step(0, prompt))
    both.goes_on(prompt + 1, both.ids.shape[1] + 1)


def test_a_prompt_with_hidden_tokens(one):
    """The mask gives them a bucket of their own, which the numbers of later rounds count."""
    both = Both(one, {"num_hashes": 3}, batch=3)
    mask = np.ones((3, 12), np.int64)
    mask[1, 9:] = mask[2, 5:] = 0
    both.assert_equal(*both.step(0, 12, mask))
    both.goes_on(13, 18)


def test_buckets_chosen_by_the_prompt(one):
    both = Both(one, {"num_buckets": None}, length=16)
    both.assert_equal(*both.step(0, 8))  # 4 buckets for good
    both.config["num_buckets"] = 4
    both.goes_on(9, 16)


def decoded(side, config, state, ids, prompt):
    """Logits (B, T - prompt + 1, V) of a prompt's last token and of each behind it."""
    model = side.build(config, state)
    logits, cache = [], None
    for end in range(prompt, ids.shape[1] + 1):
        tokens = ids[:, :end] if cache is None else ids[:, end - 1 : end]
        outputs = model(side.side.tensor(tokens), past_buckets_states=cache, use_cache=True)
        cache = outputs["past_buckets_states"]
        logits.append(side.side.array(outputs["logits"])[:, -1])
    return np.stack(logits, axis=1)


def test_a_cache_changes_nothing_in_local_attention(one):
    config = SMALL | {"attn_layers": ["local", "local"]}
    ids = make_inputs(config, 0, length=30)["input_ids"]
    found = decoded(one, config, weights_for(config), ids, 11)
    whole = one.build(config, weights_for(config))(one.side.tensor(ids))
    expected = one.side.array(whole["logits"])[:, 10:]
    assert np.abs(found - expected).max() <= BOUND * np.abs(expected).max()


def test_a_first_pass_with_a_cache_is_the_plain_pass(one):
    ids = make_inputs(SMALL, 0, length=22)["input_ids"]
    model, inputs = one.build(SMALL, weights_for(SMALL)), one.tensors({"input_ids": ids})
    with using(Session(0)):
        plain = one.call(model, inputs)
    with using(Session(0)):
        outputs = one.call(model, inputs, use_cache=True)
    assert np.array_equal(one.side.array(plain["logits"]), one.side.array(outputs["logits"]))
    assert set(plain) == {"logits"} and set(outputs) == {"logits", "past_buckets_states"}
    cache = outputs["past_buckets_states"]
    for kind, (buckets, states) in zip(SMALL["attn_layers"], cache, strict=True):
        assert list(states.shape) == [3, 22, 32]  # no padding in it
        assert buckets is None if kind == "local" else list(buckets.shape) == [3, 2, 2, 22]


def test_passes_that_begin_anew_have_the_same_rotations(one):
    """In one step of the session every pass draws its own."""

    def rotations(anew):
        found = {}
        session = Session(3, record=found.__setitem__)
        model = one.build(SMALL, weights_for(SMALL))
        ids = one.side.tensor(make_inputs(SMALL, 0, length=9)["input_ids"])
        with using(session), probing(one.side, model):
            cache = model(ids, use_cache=True)["past_buckets_states"]
            if anew:
                session.begin(prefix="next/")
            model(ids[:, :1], past_buckets_states=cache)
        return [values for key, values in found.items() if "0.attention" in key and "rotat" in key]

    first, _, second, _ = rotations(anew=True)
    assert np.array_equal(first, second)
    first, _, second, _ = rotations(anew=False)
    assert first.shape == second.shape and not np.array_equal(first, second)


def test_ids_stand_for_labels_that_are_not_there(one):
    config = SMALL
    ids = one.side.tensor(make_inputs(config, 0, length=24)["input_ids"])
    model = one.build(config, weights_for(config))
    outputs = model(ids)
    for function in (one.models.loss, lambda *a: one.models.losses(*a)["class_weights"]):
        given = one.side.array(function(outputs, {"input_ids": ids, "labels": ids}))
        assert given == one.side.array(function(outputs, {"input_ids": ids}))


def test_a_cache_belongs_to_weights_not_to_a_model(one):
    """Another model of the same weights goes on with it."""
    config, state = SMALL, weights_for(SMALL)
    ids = one.side.tensor(make_inputs(config, 0, length=20)["input_ids"])
    model = one.build(config, state)
    with using(Session(0)):
        cache = model(ids[:, :19], use_cache=True)["past_buckets_states"]
    found = []
    for next_model in (model, one.build(config, state)):
        with using(Session(1)):
            outputs = next_model(ids[:, 19:], past_buckets_states=cache)
        found.append(one.side.array(outputs["logits"]))
    assert np.array_equal(*found)


def test_what_no_cache_can_be_used_with(one):
    model = one.build(SMALL, weights_for(SMALL))
    ids = one.side.tensor(make_inputs(SMALL, 0, length=40)["input_ids"])
    cache = model(ids, use_cache=True)["past_buckets_states"]
    newest = ids[:, :1]

    def refused(said, model, *inputs, **options):
        with pytest.raises(ValueError) as caught:
            model(*inputs, **options)
        assert str(caught.value) == f"reformer: {said}."

    said = "input_ids has shape [3, 40]; allowed with a cache: [3, 1], the newest token of each"
    refused(f"{said} sample", model, ids, past_buckets_states=cache)
    said = "past_buckets_states is of 2 layers; allowed: 3"
    refused(said, model, newest, past_buckets_states=cache[:2])
    said = "attention_mask hides a token; allowed with a cache: none or all ones"
    refused(said, model, newest, newest * 0, past_buckets_states=cache)
    for _ in range(8):
        cache = model(newest, newest * 0 + 1, past_buckets_states=cache, use_cache=True)
        cache = cache["past_buckets_states"]
    said = "input_ids has 1 tokens behind 48 in the cache; allowed: up to 48, the number of"
    refused(f"{said} positions", model, newest, past_buckets_states=cache)
    said = "a cache in training; allowed: in eval mode alone"
    refused(said, model.train() or model, ids, use_cache=True)
    other = SMALL | {"head": "classification", "is_decoder": False}
    said = "a cache with head 'classification'; allowed: with 'lm' and 'none'"
    refused(said, one.build(other, weights_for(other)), ids, use_cache=True)


# ---- step 1 -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy whose step 1 runs the case with a cache alone."""
    made = Checkout(tmp_path_factory.mktemp("decoding"))
    with open(made.path("common/models/reformer/case.py"), "a") as file:
        file.write('CASES["default"] = {"decode": CASES["default"]["decode"]}\n')
    return made


REFORMER = ("--model", "reformer", "--no-report")


@pytest.mark.slow
def test_step_1_compares_every_token_s_logits_and_caches(checkout):
    done, report = ended(0, checkout.rows(1, *REFORMER))
    keys = {row["key"] for row in report["rows"]}
    length = CASES["default"]["decode"]["inputs"]["length"]
    for end in range(length - CASES["default"]["decode"]["decode"], length + 1):
        assert f"decode/token_{end}/logits" in keys
        assert f"decode/token_{end}/past_buckets_states/0/0" in keys
        assert f"decode/token_{end}/past_buckets_states/1/1" in keys
    assert report["verdict"] in ("ROUNDING", "IDENTICAL")
