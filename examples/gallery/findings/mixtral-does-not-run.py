"""Mixtral of PaddleNLP 2.8.1: whether it runs on this Paddle."""

import paddle
from paddlenlp.transformers import MixtralConfig, MixtralForCausalLM

sizes = dict(vocab_size=60, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
heads = dict(num_attention_heads=2, num_key_value_heads=1, num_local_experts=2)
model = MixtralForCausalLM(MixtralConfig(**sizes, **heads))
try:
    model(paddle.to_tensor([[7, 8, 9, 10]]))
    print("it runs")
except ValueError as error:
    raise SystemExit(f"it does not run: {error}") from None
