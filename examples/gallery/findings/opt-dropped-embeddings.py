"""How much of what the first layer of PaddleNLP's OPT is given was dropped, in train mode."""

import sys

import paddle
from paddlenlp.transformers import OPTConfig, OPTModel

config = OPTConfig(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=20,
    word_embed_proj_dim=16,
    hidden_dropout_prob=0.5,
    normalize_before=True,
)
model = OPTModel(config)
model.train()
given = []
norm = model.decoder.layers[0].norm1  # the first that a layer does
norm.register_forward_pre_hook(lambda layer, inputs: given.append(inputs[0]))
model(paddle.to_tensor([[5, 7, 9, 11]]))
share = float((given[0] == 0).astype("float32").mean())
print(f"zeros in what the first layer is given: {share:.0%} (transformers: 0%)")
sys.exit(share > 0.2)
