"""transformers' Reformer beside ours, for tests: its model of a configuration, with our draws."""

import warnings
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch

# Bytes and two special tokens, small; both chunk lengths 4.
TINY = {
    "vocab_size": 258,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "attention_head_size": 6,
    "attn_layers": ["lsh", "local"],
    "feed_forward_size": 24,
    "hidden_act": "gelu",
    "is_decoder": True,
    "local_attn_chunk_length": 4,
    "lsh_attn_chunk_length": 4,
    "num_buckets": 4,
    "num_hashes": 2,
    "axial_pos_embds": True,
    "axial_pos_shape": [8, 8],
    "axial_pos_embds_dim": [6, 10],
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "head": "lm",
}


@cache
def library():
    """Return transformers' module of the Reformer, whose import takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers
        from transformers.models.reformer import modeling_reformer

    transformers.logging.set_verbosity_error()  # it warns of the padding that it makes
    return modeling_reformer


def reference_model(config, seed=0):
    """transformers' model in float64 and eval mode, with weights in which no bias is 0."""
    kept = {"eos_token_id": None} | {key: v for key, v in config.items() if key != "head"}
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        model = library().ReformerModelWithLMHead(library().ReformerConfig(**kept)).eval()
    finally:
        torch.set_default_dtype(default)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.tensor(rng.standard_normal(tuple(value.shape)))
            value.copy_(noise * 0.3 + ("layer_norm.weight" in name))
    return model


def state_of(model):
    """Key -> array of its state dict."""
    return {key: value.numpy().copy() for key, value in model.state_dict().items()}


@contextmanager
def drawing(rotations_of):
    """Meanwhile its hashing takes rotations_of(layer's number in attn_layers, shape), an array."""
    attention = library().LSHSelfAttention
    plain, normal = attention._hash_vectors, torch.randn

    def hash_vectors(self, *inputs, **options):
        def draw(shape, **unused):
            return torch.tensor(rotations_of(self.layer_idx, list(shape)))

        torch.randn = draw
        try:
            return plain(self, *inputs, **options)
        finally:
            torch.randn = normal

    attention._hash_vectors = hash_vectors
    try:
        yield
    finally:
        attention._hash_vectors = plain
