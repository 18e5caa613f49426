"""The same decoder in Paddle: q, k and v are one weight, gate and up are another."""

from paddle import nn
from paddle.nn import functional as F

SAME = ("input_layernorm.weight", "input_layernorm.bias")
SAME += ("post_attention_layernorm.weight", "post_attention_layernorm.bias")


class Layer(nn.Layer):
    """Attention and a gated network, each behind its norm."""

    def __init__(self, config):
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.input_layernorm = nn.LayerNorm(size)
        self.post_attention_layernorm = nn.LayerNorm(size)
        self.qkv_proj = nn.Linear(size, 3 * size, bias_attr=None if config.qkv_bias else False)
        # of each head q, k, v
        self.o_proj = nn.Linear(size, size, bias_attr=False)
        self.up_gate_proj = nn.Linear(size, 4 * size)  # gate, then up
        self.down_proj = nn.Linear(2 * size, size, bias_attr=False)

    def forward(self, x):
        parts = self.qkv_proj(self.input_layernorm(x)).reshape([*x.shape[:2], self.heads, 3, -1])
        q, k, v = [parts[:, :, :, i].transpose([0, 2, 1, 3]) for i in range(3)]
        scores = F.softmax(q @ k.transpose([0, 1, 3, 2]) / q.shape[-1] ** 0.5)  # (B, H, T, T)
        x = x + self.o_proj((scores @ v).transpose([0, 2, 1, 3]).reshape(x.shape))
        gate, up = self.up_gate_proj(self.post_attention_layernorm(x)).chunk(2, -1)
        return x + self.down_proj(F.silu(gate) * up)


class Toy(nn.Layer):
    """ids (B, T) to logits (B, T, V)."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.LayerList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias_attr=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))

    @classmethod
    def _gen_aoa_config(cls, config):
        q, k, v, gate, up = (
            f"layers.$LAYER_ID.{part}_proj" for part in ("q", "k", "v", "gate", "up")
        )
        heads = f"num_heads={config.num_attention_heads}"
        groups = f"num_key_value_groups={config.num_attention_heads}"
        statements = [
            *(f"layers.$LAYER_ID.{name} -> layers.$LAYER_ID.{name}" for name in SAME),
            "layers.$LAYER_ID.o_proj.weight^T -> layers.$LAYER_ID.o_proj.weight",
            "layers.$LAYER_ID.down_proj.weight^T -> layers.$LAYER_ID.down_proj.weight",
            "lm_head.weight^T -> lm_head.weight",
            f"{q}.weight^T, {k}.weight^T, {v}.weight^T -> "
            f"layers.$LAYER_ID.qkv_proj.weight, fused_qkv, {heads}, {groups}",
            f"{gate}.weight^T, {up}.weight^T -> layers.$LAYER_ID.up_gate_proj.weight, fused_ffn",
            f"{gate}.bias, {up}.bias -> layers.$LAYER_ID.up_gate_proj.bias, axis=0",
        ]
        if config.qkv_bias:
            statements += [
                f"{q}.bias, {k}.bias, {v}.bias -> "
                f"layers.$LAYER_ID.qkv_proj.bias, fused_qkv, {heads}, {groups}, axis=0"
            ]
        return {"aoa_statements": statements}

    @classmethod
    def _gen_inv_aoa_config(cls, config):
        q, k, v, gate, up = (
            f"layers.$LAYER_ID.{part}_proj" for part in ("q", "k", "v", "gate", "up")
        )
        heads = f"num_heads={config.num_attention_heads}"
        groups = f"num_key_value_groups={config.num_attention_heads}"
        turned = [
            f"layers.{i}.{part}_proj.weight"
            for i in range(config.num_hidden_layers)
            for part in ("q", "k", "v", "gate", "up")
        ]
        statements = [
            "layers.$LAYER_ID.o_proj.weight^T -> layers.$LAYER_ID.o_proj.weight",
            "layers.$LAYER_ID.down_proj.weight^T -> layers.$LAYER_ID.down_proj.weight",
            "lm_head.weight^T -> lm_head.weight",
            "layers.$LAYER_ID.qkv_proj.weight -> "
            f"{q}.weight, {k}.weight, {v}.weight, fused_qkv, {heads}, {groups}",
            f"layers.$LAYER_ID.up_gate_proj.weight -> {gate}.weight, {up}.weight, fused_ffn",
            f"layers.$LAYER_ID.up_gate_proj.bias -> {gate}.bias, {up}.bias, axis=0",
            *(f"{name}^T -> {name}" for name in turned),
        ]
        if config.qkv_bias:
            statements += [
                "layers.$LAYER_ID.qkv_proj.bias -> "
                f"{q}.bias, {k}.bias, {v}.bias, fused_qkv, {heads}, {groups}, axis=0"
            ]
        return {"aoa_statements": statements}
