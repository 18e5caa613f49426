"""The gradient of the padding token's embedding in PaddleFormers' ERNIE 4.5 and LLaMA."""

import sys

import paddle
from paddleformers.transformers import (
    Ernie4_5Config,
    Ernie4_5Model,
    LlamaConfig,
    LlamaModel,
)

SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "pad_token_id": 0,
}
found = {}
for name, config, model in (
    ("LLaMA", LlamaConfig, LlamaModel),
    ("ERNIE 4.5", Ernie4_5Config, Ernie4_5Model),
):
    settings = config(**SIZES)
    settings.fuse_rms_norm = False
    built = model(settings)
    outputs = built(paddle.to_tensor([[5, 7, 0, 0]]))
    outputs[0].square().sum().backward()
    found[name] = float(built.embed_tokens.weight.grad[0].abs().max())
    print(f"{name}: largest gradient of the padding token's embedding {found[name]:.3g}")
sys.exit(found["ERNIE 4.5"] > 0 and found["LLaMA"] == 0)
