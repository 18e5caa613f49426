"""Fastformer: configurations, inputs and cases (NumPy only).

    from twincheck.common.models.fastformer.case import CONFIGS, make_inputs
    inputs = make_inputs(CONFIGS["default"], seed=0)
    inputs["input_ids"].shape  # (3, 40)

The keys of a configuration are those of the authors' fastformer.json, plus `vocab_size`,
`num_labels` and `head`.
"""

import numpy as np

from twincheck.common.pair.data import embedded_data

# What the authors' fastformer.json says; the number of labels is transformers' default.
DEFAULTS = {
    "vocab_size": 100000,  # rows of the word embedding; id 0 is padding
    "hidden_size": 256,  # C, a multiple of the heads
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "intermediate_size": 256,  # width inside a layer's feed-forward part
    "max_position_embeddings": 256,  # the longest sequence
    "hidden_act": "gelu",  # of the feed-forward part; gelu is the exact one, with erf
    "hidden_dropout_prob": 0.2,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,  # standard deviation of the initial weights
    "pooler_type": "weightpooler",
    "num_labels": 2,
    "head": "classification",
}

_ALLOWED = {
    "hidden_act": ("gelu", "relu", "silu", "tanh"),
    "pooler_type": ("weightpooler",),
    "head": ("classification",),
}
_COUNTS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "num_labels",
)

_SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
    "pooler_type": "weightpooler",
    "num_labels": 5,
    "head": "classification",
}

CONFIGS = {
    "default": _SMALL,
    # An 8x8 digit as 64 tokens: grey level 0..16 plus 1.
    "digits": {
        **_SMALL,
        "vocab_size": 18,
        "num_attention_heads": 8,
        "intermediate_size": 32,
        "initializer_range": 0.1,  # at 0.02 it needs twice as many epochs
        "max_position_embeddings": 64,
        "num_labels": 4,
    },
    # Table 8 of the paper: Amazon Electronics, five stars; the vocabulary is seed 001's.
    "amazon": {
        **DEFAULTS,
        "vocab_size": 77053,
        "max_position_embeddings": 512,
        "num_labels": 5,
    },
    # The authors' published notebook: fastformer.json on AG News.
    "ag_news": {**DEFAULTS, "num_labels": 4},
}

CASES = {
    "default": {
        "main": {"weights": "initial"},
        "padding": {"inputs": {"mask": "default"}, "weights": "perturbed"},
        "masked_rows": {"inputs": {"masked_rows": True}, "weights": "perturbed"},
        "train": {
            "config": {"hidden_dropout_prob": 0.2},
            "weights": "perturbed",
            "train": True,
        },
        "holes": {
            "config": {"hidden_act": "relu", "num_hidden_layers": 1},
            "inputs": {"mask": "holes", "length": 13},
            "weights": "perturbed",
        },
    }
}

# The model detaches the padding word: see embed.
PADDING_ROWS = {"word_embedding.weight": 0}

# How a preset is trained; its dropout is in CONFIGS.
TRAIN = {
    "digits": {
        "epochs": 2,
        "batch_size": 32,
        "optimizer": "adam",
        "lr": 5e-3,
        "warmup_steps": 8,
        "schedule": "linear",  # warm-up, then down to 0 at the last step
    },
    # Table 8 of the paper.
    "amazon": {
        "epochs": 3,
        "batch_size": 64,
        "optimizer": "adam",
        "lr": 1e-3,
        "warmup_steps": 0,
        "schedule": "constant",
    },
    "ag_news": {
        "epochs": 1,
        "batch_size": 64,
        "optimizer": "adam",
        "lr": 1e-3,
        "warmup_steps": 0,
        "schedule": "constant",
    },
}

# The numbers to reach, each with its deviation; preset -> where they are from, and what they are.
# A test set of another size is another question.
TARGETS = {
    # Wu et al. 2021 (arXiv:2108.09084), Table 4: five runs on 40,000 reviews drawn at random.
    "amazon": {
        "source": "Fastformer's paper, Table 4, Amazon",
        "test_samples": 5000,
        "scores": {"accuracy": (0.6613, 0.0029), "macro_f1": (0.4323, 0.0030)},
    },
    # The authors' published notebook, after its first epoch; one run.
    "ag_news": {
        "source": "the authors' notebook",
        "test_samples": 7600,
        "scores": {"accuracy": (0.92355, 0.0)},
    },
}

# What a preset reads (common/pair/sources).
DATA = {
    # Table 1 of the paper: 40,000, 5,000 and 5,000 reviews.
    "amazon": {"source": "reviews", "split": "random", "length": 512},
    # The authors' notebook: words in lower case, 256 of them.
    "ag_news": {"source": "classes", "lower": True, "length": 256},
}

# Steps 2 and 5 train and score on the digits where the preset has no entry in TRAIN or DATA.
DATA_PRESET = "digits"
make_data = embedded_data


def complete(config):
    """`config` with DEFAULTS for what it leaves out; keys that the model does not use are dropped.

    Raises ValueError, one sentence naming the value and what is allowed, for a value that no model
    can be built from.
    """
    full = {key: config.get(key, default) for key, default in DEFAULTS.items()}
    for key, allowed in _ALLOWED.items():
        if full[key] not in allowed:
            names = ", ".join(repr(name) for name in allowed)
            raise ValueError(f"fastformer: {key} is {full[key]!r}; allowed: {names}.")
    for key in _COUNTS:
        if isinstance(full[key], bool) or not isinstance(full[key], int) or full[key] < 1:
            raise ValueError(f"fastformer: {key} is {full[key]!r}; allowed: an integer from 1.")
    if full["hidden_size"] % full["num_attention_heads"] != 0:
        raise ValueError(
            f"fastformer: hidden_size is {full['hidden_size']}; allowed: a multiple of "
            f"num_attention_heads, which is {full['num_attention_heads']}."
        )
    if not 0.0 <= full["hidden_dropout_prob"] < 1.0:
        raise ValueError(
            f"fastformer: hidden_dropout_prob is {full['hidden_dropout_prob']!r}; "
            "allowed: from 0 to below 1."
        )
    for key in ("layer_norm_eps", "initializer_range"):
        if not full[key] > 0.0:
            raise ValueError(f"fastformer: {key} is {full[key]!r}; allowed: above 0.")
    return full


def make_inputs(config, seed, batch_size=3, length=None, mask="explicit", masked_rows=False):
    """Token ids, mask and labels, int64, that reach the edges.

    length       T; by default the longest that the model takes
    mask         "explicit": 1 where the id is not 0; "default": none is given; "holes": a bool
                 mask that also hides tokens between others, and keeps one padding word
    masked_rows  also a row of padding alone

    The first row is full, the others get shorter; the second repeats its tokens.  At least one
    class has no sample.
    Raises ValueError for any other `mask`.
    """
    if mask not in ("explicit", "default", "holes"):
        raise ValueError(f"fastformer: mask is {mask!r}; allowed: 'explicit', 'default', 'holes'.")
    config = complete(config)
    tokens = config["max_position_embeddings"] if length is None else length
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, config["vocab_size"], size=(batch_size, tokens))  # (B, T)
    if batch_size > 1:
        ids[1, 1::2] = ids[1, : 2 * (tokens // 2) : 2]
    for row in range(1, batch_size):
        ids[row, max(1, tokens * (batch_size - row) // (batch_size + 1)) :] = 0
    if masked_rows:
        ids[-1] = 0
    labels = rng.integers(0, max(1, config["num_labels"] - 1), size=batch_size)  # (B)
    labels[0] = min(1, config["num_labels"] - 1)  # so that not every label is 0
    inputs = {"input_ids": ids.astype(np.int64), "labels": labels.astype(np.int64)}
    if mask == "explicit":
        inputs["attention_mask"] = (ids != 0).astype(np.int64)
    if mask == "holes":
        inputs["attention_mask"] = (ids != 0) & (rng.random(ids.shape) < 0.7)
        # Elsewhere padding gets no gradient anyway, since no weight falls on it.
        inputs["input_ids"][0, tokens // 2] = 0
        inputs["attention_mask"][0, tokens // 2] = True
    return inputs
