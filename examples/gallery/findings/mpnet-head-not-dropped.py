"""How much of what PaddleNLP's MPNet classifies was dropped before its dense layer."""

import sys

import paddle
from paddlenlp.transformers import MPNetConfig, MPNetForSequenceClassification

config = MPNetConfig(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=20,
    hidden_dropout_prob=0.5,
)
model = MPNetForSequenceClassification(config)
model.train()
given = []
dense = model.mpnet.pooler.dense
dense.register_forward_pre_hook(lambda layer, inputs: given.append(inputs[0]))
model(paddle.to_tensor([[5, 7, 9, 11], [6, 8, 10, 12]]))
share = float((given[0] == 0).astype("float32").mean())
print(f"zeros in what the head's dense layer is given: {share:.0%} (transformers: half)")
sys.exit(share < 0.2)
