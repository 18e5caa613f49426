"""DeBERTa and DeBERTa-v2 of PaddleNLP: a sentence with padding behind it has NaN as its logits."""

import numpy as np
import paddle
from paddlenlp import transformers

sizes = dict(vocab_size=60, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
broken = False
for name in ("Deberta", "DebertaV2"):
    paddle.seed(0)
    config = getattr(transformers, f"{name}Config")(
        intermediate_size=8, max_position_embeddings=8, pooler_hidden_size=8, pooler_dropout=0.0,
        relative_attention=True, pos_att_type=["c2p", "p2c"], **sizes
    )  # fmt: skip
    model = getattr(transformers, f"{name}ForSequenceClassification")(config)
    model.eval()
    tokens = paddle.to_tensor([[7, 8, 9, 10], [7, 8, 9, 0]])
    logits = model(tokens, attention_mask=(tokens != 0).astype("int64")).numpy()
    print(f"{name}: without padding {logits[0].tolist()}, with padding {logits[1].tolist()}")
    broken |= bool(np.isnan(logits).any())
raise SystemExit(int(broken))
