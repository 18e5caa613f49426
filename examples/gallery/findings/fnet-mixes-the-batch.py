"""FNet in PaddleNLP: a sentence's logits depend on which other sentence is in its batch."""

import numpy as np
import paddle
from paddlenlp.transformers import FNetConfig, FNetForSequenceClassification

paddle.seed(0)
sizes = dict(vocab_size=60, hidden_size=8, num_hidden_layers=1, intermediate_size=8)
model = FNetForSequenceClassification(FNetConfig(max_position_embeddings=8, **sizes))
model.eval()
sentence, other, another = np.random.default_rng(0).integers(4, 60, (3, 1, 6))
found = []
for beside in (other, another):
    logits = model(paddle.to_tensor(np.concatenate([sentence, beside])))
    found.append(logits[0].numpy())
    print("the same sentence beside another:", found[-1].tolist())
raise SystemExit(int(np.abs(found[0] - found[1]).max() > 1e-6))
