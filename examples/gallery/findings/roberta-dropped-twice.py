"""How much of what the head of PaddleNLP's RoBERTa is given was dropped before, in train mode."""

import sys

import paddle
from paddlenlp.transformers import RobertaConfig, RobertaForSequenceClassification

config = RobertaConfig(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=20,
    hidden_dropout_prob=0.5,
)
model = RobertaForSequenceClassification(config)
model.train()
given = []
model.classifier.register_forward_pre_hook(lambda layer, inputs: given.append(inputs[0]))
model(paddle.to_tensor([[5, 7, 9, 11]]))
share = float((given[0] == 0).astype("float32").mean())
print(f"zeros in what the classification head is given: {share:.0%} (its own dropout comes after)")
sys.exit(share > 0.2)
