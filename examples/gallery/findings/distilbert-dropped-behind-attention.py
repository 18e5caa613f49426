"""How much of PaddleNLP's DistilBERT attention is dropped before it is added, in train mode."""

import sys

import paddle
from paddlenlp.transformers import DistilBertConfig, DistilBertModel

config = DistilBertConfig(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=20,
    hidden_dropout_prob=0.5,
    attention_probs_dropout_prob=0.0,
)
model = DistilBertModel(config)
model.embeddings.dropout.p = 0.0  # what is left to drop lies behind the attention
given = []  # the sum of the attention and its residual
layer = model.encoder.layers[0]
layer.norm1.register_forward_pre_hook(lambda layer, inputs: given.append(inputs[0]))
for train in (False, True):
    model.train() if train else model.eval()
    model(paddle.to_tensor([[5, 7, 9, 11]]))
share = float((given[0] != given[1]).astype("float32").mean())
print(f"what the first LayerNorm is given differs in train mode: {share:.0%} (transformers: 0%)")
sys.exit(share > 0.2)
