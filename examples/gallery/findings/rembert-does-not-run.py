"""RemBERT of PaddleNLP: whether it runs, and whether padding that is masked is attended to."""

import numpy as np
import paddle
from paddlenlp.transformers import RemBertConfig, RemBertForSequenceClassification

paddle.seed(0)
sizes = dict(vocab_size=60, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
config = RemBertConfig(
    input_embedding_size=8, intermediate_size=8, max_position_embeddings=8, **sizes
)
model = RemBertForSequenceClassification(config)
model.eval()
mask = paddle.to_tensor([[1, 1, 1, 0, 0, 0]])
found = []
for padding in (5, 50):
    tokens = paddle.to_tensor([[7, 8, 9, padding, padding, padding]])
    try:
        found.append(model(tokens, attention_mask=mask).numpy())
    except ValueError as error:
        raise SystemExit(f"it does not run: {error}") from None
    print(f"three tokens of padding, each {padding:2}: {found[-1].tolist()}")
raise SystemExit(int(np.abs(found[0] - found[1]).max() > 1e-6))
