"""Whether the decoder of PaddleNLP's Blenderbot sees a kept token of the padding's number."""

import paddle
from paddlenlp.transformers import BlenderbotConfig, BlenderbotModel

paddle.seed(0)
config = BlenderbotConfig(
    vocab_size=30,
    d_model=8,
    num_encoder_layers=1,
    num_decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=8,
    decoder_ffn_dim=8,
    max_position_embeddings=20,
    pad_token_id=0,
)
model = BlenderbotModel(config)
model.eval()
given = {
    "input_ids": paddle.to_tensor([[7, 0, 9]]),
    "attention_mask": paddle.ones([1, 3]),
    "decoder_input_ids": paddle.to_tensor([[5, 6]]),
}
encoded = paddle.randn([1, 3, 8])
other = encoded.clone()
other[:, 1] = 5 * paddle.randn([8])  # what the encoder gave for the token with the number 0
change = model(**given, encoder_output=encoded) - model(**given, encoder_output=other)
change = float(change.abs().max())
print(f"another encoding of a kept token changes the decoder's output by {change:.2g}")
raise SystemExit(int(change == 0))
