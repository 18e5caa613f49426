"""MegatronBERT of PaddleNLP: what the padding token is embedded as if its row is filled."""

import paddle
from paddlenlp.transformers import MegatronBertConfig, MegatronBertModel

sizes = dict(vocab_size=60, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
config = MegatronBertConfig(intermediate_size=8, max_position_embeddings=8, pad_token_id=0, **sizes)
embedding = MegatronBertModel(config).embeddings.word_embeddings
embedding.weight.set_value(paddle.ones([60, 8]))
padding, other = embedding(paddle.to_tensor([0, 1])).max(axis=-1).tolist()
print(f"all rows are 1; the padding token is embedded as {padding}, another one as {other}")
raise SystemExit(int(padding != other))
