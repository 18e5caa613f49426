"""Cached decoding: both sides against transformers' own cache, token by token, in float64."""

import numpy as np
import pytest
import torch
from hf_reformer import TINY, drawing, reference_model, state_of
from test_reformer import load

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


class Both:
    """transformers' model and one side's, fed the same tokens and rotations."""

    def __init__(self, side, changes, batch=1, length=24):
        self.side = side
        self.config = TINY | changes
        self.theirs = reference_model(self.config, 0)
        self.model = side.build(self.config, state_of(self.theirs))
        self.rng = np.random.default_rng(0)
        self.ids = self.rng.integers(1, self.config["vocab_size"], (batch, length))
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
        with drawing(lambda i, _: drawn[layers.index(i)]), torch.no_grad():
            given = {key: torch.tensor(values) for key, values in masks.items()}
            theirs = self.theirs(
                torch.tensor(ids), past_buckets_states=self.caches[0], use_cache=True, **given
            )
        kept = theirs["past_buckets_states"]
        inputs = self.side.tensors({"input_ids": ids, **masks})
        if layers:
            inputs["rotations"] = self.side.side.tensor(drawn)
        options = {"past_buckets_states": self.caches[1], "use_cache": True}
        ours = self.side.call(self.model, inputs, **options)
        self.caches = kept, ours["past_buckets_states"]
        return theirs["logits"], ours

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
