"""Blenderbot's encoder in PaddleNLP: which of a sentence's tokens it attends to, by its mask."""

import numpy as np
import paddle
from paddlenlp.transformers import BlenderbotConfig
from paddlenlp.transformers.blenderbot.modeling import BlenderbotEncoder

paddle.seed(0)
sizes = dict(vocab_size=60, d_model=8, num_encoder_layers=1, num_decoder_layers=1)
heads = dict(encoder_attention_heads=2, decoder_attention_heads=2)
encoder = BlenderbotEncoder(
    BlenderbotConfig(encoder_ffn_dim=8, max_position_embeddings=8, **sizes, **heads)
)
encoder.eval()
mask = paddle.to_tensor([[1.0, 1.0, 1.0, 0.0]])
found = []
for padding in (5, 50):
    hidden = encoder(paddle.to_tensor([[7, 8, 9, padding]]), attention_mask=mask)
    found.append(hidden[0, 0].numpy())
    print(f"first token, the masked one is {padding:2}: {found[-1].round(3).tolist()}")
raise SystemExit(int(np.abs(found[0] - found[1]).max() > 1e-6))
