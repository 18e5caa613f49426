"""Small configurations of published classes, with which their statements are proven on a CPU.

What both libraries' configurations take.  A number that is on one side alone (fuse_rms_norm, whose
kernel is for GPUs) is ignored by the other.
"""

_SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "attention_dropout": 0.0,
    "pad_token_id": None,  # the row of a padding id is 0 in Paddle
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "fuse_rms_norm": False,
    "_experts_implementation": "eager",
}
_FULL = {"layer_types": ["full_attention"] * 3, "sliding_window": 128}
# class -> what its configuration has beside; TRAIN names those that are run in training mode
SETTINGS: dict[str, dict[str, object]] = {
    "LlamaForCausalLM": {},
    "Qwen2ForCausalLM": {"tie_word_embeddings": True},
    # Tied as published, and one kind of layer: its sliding layers rotate otherwise in 1.2.0.
    "Gemma3ForCausalLM": {**_FULL, "tie_word_embeddings": True, "query_pre_attn_scalar": 8},
    "GptOssForCausalLM": {**_FULL, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Ernie4_5ForCausalLM": {"use_bias": False},
}
# PaddleFormers 1.2.0 makes another class of this name, whose keys and kernels are a cluster's.
PORTS = {"Qwen2ForCausalLM": "paddleformers.transformers.qwen2.modeling:Qwen2ForCausalLMDeprecated"}
# Its experts compute otherwise in evaluation mode; without dropout, training mode is the same.
TRAIN = ("GptOssForCausalLM",)


def settings_of(name: str) -> dict[str, object]:
    """The small configuration of a published class."""
    return {**_SMALL, **SETTINGS[name]}


def named(name: str) -> tuple[str, str]:
    """A published class's full name on both sides: torch, Paddle."""
    return f"transformers:{name}", PORTS.get(name, f"paddleformers.transformers:{name}")
