"""Gemma 3 of PaddleFormers: what the padding token is embedded as once a step has moved its row."""

import paddle
from paddleformers.transformers import Gemma3ForCausalLM, Gemma3TextConfig

paddle.seed(0)
config = Gemma3TextConfig(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    pad_token_id=0,
    tie_word_embeddings=True,
)
config.fuse_rms_norm = False
model = Gemma3ForCausalLM(config)
embedding = model.model.embed_tokens
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
tokens = paddle.to_tensor([[5, 7, 9, 11]])
model(tokens)[0].sum().backward()
optimizer.step()
row = float(embedding.weight[0].abs().max())
given = float(embedding(paddle.to_tensor([[0]])).abs().max())
print(f"the padding token after a step: its row {row:.3g}, what it is embedded as {given:.3g}")
raise SystemExit(int(row > 0 and given == 0))
