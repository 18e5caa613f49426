"""BERT of transformers (torch) against BERT of PaddleNLP, each as it is published.

NumPy only.  The keys are those that both packages' BertConfig take, but for `batch` and `tokens`.
"""

import numpy as np

_BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "num_labels": 2,
    "batch": 2,
    "tokens": 128,
}
_SMALL = {
    "vocab_size": 60,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 32,
    "batch": 3,
    "tokens": 12,
}
CONFIGS = {
    "default": _BASE | _SMALL,
    "base": _BASE,  # bert-base-uncased's shape: 109,483,778 parameters
}


def _rename():
    """PaddleNLP builds its encoder of paddle.nn.TransformerEncoderLayer, whose names are others."""
    names = {"embeddings.layer_norm": "embeddings.LayerNorm"}
    layer = {
        "self_attn.q_proj": "attention.self.query",
        "self_attn.k_proj": "attention.self.key",
        "self_attn.v_proj": "attention.self.value",
        "self_attn.out_proj": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm2": "output.LayerNorm",
    }
    for i in range(_BASE["num_hidden_layers"]):
        names[f"encoder.layers.{i}"] = f"encoder.layer.{i}"
        for paddle, torch in layer.items():
            names[f"encoder.layers.{i}.{paddle}"] = f"encoder.layer.{i}.{torch}"
    return {f"classifier.bert.{paddle}": f"classifier.bert.{t}" for paddle, t in names.items()}


RENAME = _rename()


def make_inputs(config, seed):
    """input_ids, token_type_ids, attention_mask (1 = keep), each (B, T) int64; labels (B).

    Rows but the first end in padding; the second half of what is kept is another sentence.
    """
    rng = np.random.default_rng(seed)
    batch, tokens = config["batch"], config["tokens"]
    kept = np.array([tokens - i * tokens // (2 * batch) for i in range(batch)])[:, None]
    mask = (np.arange(tokens) < kept).astype(np.int64)
    return {
        "input_ids": rng.integers(1, config["vocab_size"], mask.shape) * mask,
        "token_type_ids": (np.arange(tokens) >= kept // 2) * mask,
        "attention_mask": mask,
        "labels": rng.integers(0, config["num_labels"], batch),
    }
