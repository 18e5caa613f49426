"""The biases of an ERNIE 4.5 of PaddleFormers that is told to have them."""

import sys

from paddleformers.transformers import Ernie4_5Config, Ernie4_5ForCausalLM

config = Ernie4_5Config(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    use_bias=True,
)
names = [name for name, _ in Ernie4_5ForCausalLM(config).named_parameters() if "bias" in name]
for part in ("self_attn", "mlp"):
    print(f"biases in {part}:", [name for name in names if part in name])
sys.exit(not any("mlp" in name for name in names))
