"""The embedding tables of PaddleNLP's Blenderbot, and whether they are one."""

from paddle import nn
from paddlenlp.transformers import BlenderbotConfig, BlenderbotModel

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
)
model = BlenderbotModel(config)
tables = {
    name: layer.weight
    for name, layer in model.named_sublayers()
    if isinstance(layer, nn.Embedding) and layer.weight.shape[0] == config.vocab_size
}
different = len({id(weight) for weight in tables.values()})
print(f"{', '.join(tables)}: {different} (transformers: 1)")
raise SystemExit(int(different > 1))
