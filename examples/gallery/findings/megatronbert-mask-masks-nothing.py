"""MegatronBERT of PaddleNLP: what the attention mask says is padding is attended to."""

import numpy as np
import paddle
from paddlenlp.transformers import MegatronBertConfig, MegatronBertForSequenceClassification

paddle.seed(0)
sizes = dict(vocab_size=60, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
config = MegatronBertConfig(intermediate_size=8, max_position_embeddings=8, **sizes)
model = MegatronBertForSequenceClassification(config)
model.eval()
mask = paddle.to_tensor([[1, 1, 1, 0, 0, 0]])
found = []
for padding in (5, 50):
    tokens = paddle.to_tensor([[7, 8, 9, padding, padding, padding]])
    found.append(model(tokens, attention_mask=mask).numpy())
    print(f"three tokens of padding, each {padding:2}: {found[-1].tolist()}")
raise SystemExit(int(np.abs(found[0] - found[1]).max() > 1e-6))
