"""What the built-in models' configurations may not say; the sentences name what is allowed."""

import importlib

import pytest

BUCKETS = "an even integer, a list of such factors, or None"
COUNT = "an integer from 1"
RATE = "from 0 to below 1"
# Model -> changes of its default, and what is allowed instead of the first value that was changed;
# a whole sentence where another is named.
REFUSED = {
    "reformer": [
        ({"head": "bar"}, "'none', 'lm', 'masked_lm', 'classification', 'question_answering'"),
        ({"hidden_act": "foo"}, "'relu', 'gelu'"),
        ({"attn_layers": ["local", "lsx"]}, "attn_layers holds 'lsx'; allowed: 'local', 'lsh'"),
        ({"num_buckets": [4, 3]}, BUCKETS),
        ({"hidden_size": 32.0}, COUNT),
        ({"hidden_dropout_prob": 1.0}, RATE),
        ({"axial_pos_embds_dim": [8, 8]}, "two integers whose sum is hidden_size, 32"),
    ],
    "fast_transformer": [
        ({"head": "none"}, "'lm', 'classification'"),
        (
            {"heats": 8},
            "unknown option 'heats'; allowed: num_tokens, dim, depth, max_seq_len, heads, "
            "dim_head, ff_mult, absolute_pos_emb, head, num_labels, dropout",
        ),
        (
            {"absolute_pos_emb": False, "dim_head": 6},
            "dim_head is 6; allowed with rotary positions: a multiple of 4",
        ),
    ],
    "fastformer": [
        ({"head": "lm"}, "'classification'"),
        ({"hidden_act": "gleu"}, "'gelu', 'relu', 'silu', 'tanh'"),
        (
            {"num_attention_heads": 5},
            "hidden_size is 32; allowed: a multiple of num_attention_heads, which is 5",
        ),
    ],
    "informer": [
        ({"model": "transformer"}, "'informer', 'informer_stack'"),
        ({"d_model": 15}, "an even number from n_heads, which is 2"),
        ({"label_len": 30}, "up to seq_len, which is 24"),
        ({"s_layers": "3,x", "model": "informer_stack"}, "integers from 1, such as [3, 2, 1]"),
    ],
}


@pytest.mark.parametrize(
    "model, change, text", [(model, *row) for model, rows in REFUSED.items() for row in rows]
)
def test_a_configuration_that_means_nothing_is_a_sentence(model, change, text):
    case = importlib.import_module(f"twincheck.common.models.{model}.case")
    if "; allowed" not in text:
        key, value = next(iter(change.items()))
        text = f"{key} is {value!r}; allowed: {text}"
    with pytest.raises(ValueError) as caught:
        case.complete(case.CONFIGS["default"] | change)
    assert str(caught.value) == f"{model}: {text}."
