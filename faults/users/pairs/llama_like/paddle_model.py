import paddle
from paddle import nn
from paddle.nn import functional as F


class RMSNorm(nn.Layer):
    def __init__(self, hidden_size, eps):
        super().__init__()
        one = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([hidden_size], default_initializer=one)
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        states = hidden_states.astype("float32")
        variance = (states * states).mean(-1, keepdim=True)
        states = states / paddle.sqrt(variance + self.variance_epsilon)
        return states.astype(dtype) * self.weight


def rotary_table(position_ids, size, base):
    """cos and sin (B, T, 1, D) float32"""
    inverse = 1.0 / base ** (paddle.arange(0, size, 2, dtype="float32") / size)
    angles = position_ids.astype("float32").unsqueeze(-1) * inverse
    angles = paddle.concat([angles, angles], axis=-1).unsqueeze(2)
    return paddle.cos(angles), paddle.sin(angles)


def apply_rotary(x, cos, sin):
    half = x.shape[-1] // 2
    turned = paddle.concat([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos.astype(x.dtype) + turned * sin.astype(x.dtype)


def repeat_kv(x, times):
    """(B, T, KV, D) -> (B, T, KV * times, D), a key's copies side by side"""
    batch, tokens, heads, size = x.shape
    x = x.unsqueeze(3).expand([batch, tokens, heads, times, size])
    return x.reshape([batch, tokens, heads * times, size])


class Attention(nn.Layer):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias_attr=False)
        self.k_proj = nn.Linear(width, self.size * kv_heads, bias_attr=False)
        self.v_proj = nn.Linear(width, self.size * kv_heads, bias_attr=False)
        self.o_proj = nn.Linear(width, width, bias_attr=False)

    def forward(self, x, cos, sin, mask):
        batch, tokens, width = x.shape
        q = self.q_proj(x).reshape([batch, tokens, self.heads, self.size])
        k = self.k_proj(x).reshape([batch, tokens, self.kv_heads, self.size])
        v = self.v_proj(x).reshape([batch, tokens, self.kv_heads, self.size])
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        k = repeat_kv(k, self.heads // self.kv_heads)
        v = repeat_kv(v, self.heads // self.kv_heads)
        q, k, v = (t.transpose([0, 2, 1, 3]) for t in (q, k, v))
        scores = paddle.matmul(q / self.size**0.5, k.transpose([0, 1, 3, 2])) + mask
        weights = F.softmax(scores.astype("float32"), axis=-1).astype(v.dtype)
        return self.o_proj(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).flatten(2))


class MLP(nn.Layer):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias_attr=False)
        self.up_proj = nn.Linear(width, inner, bias_attr=False)
        self.down_proj = nn.Linear(inner, width, bias_attr=False)

    def forward(self, x):
        return self.down_proj(F.swiglu(self.gate_proj(x), self.up_proj(x)))


class DecoderLayer(nn.Layer):
    def __init__(self, width, heads, kv_heads, inner, eps):
        super().__init__()
        self.self_attn = Attention(width, heads, kv_heads)
        self.mlp = MLP(width, inner)
        self.input_layernorm = RMSNorm(width, eps)
        self.post_attention_layernorm = RMSNorm(width, eps)

    def forward(self, hidden, cos, sin, mask):
        residual = hidden
        hidden = residual + self.self_attn(self.input_layernorm(hidden), cos, sin, mask)
        residual = hidden
        return residual + self.mlp(self.post_attention_layernorm(hidden))


class Llama(nn.Layer):
    def __init__(self, words, width, heads, kv_heads, inner, layers, base, eps):
        super().__init__()
        self.size, self.base = width // heads, base
        self.embed_tokens = nn.Embedding(words, width)
        self.layers = nn.LayerList(
            [DecoderLayer(width, heads, kv_heads, inner, eps) for _ in range(layers)]
        )
        self.norm = RMSNorm(width, eps)
        self.lm_head = nn.Linear(width, words, bias_attr=False)

    def forward(self, input_ids, attention_mask):
        batch, tokens = input_ids.shape
        places = paddle.arange(tokens)
        position_ids = places.unsqueeze(0).expand([batch, tokens])
        cos, sin = rotary_table(position_ids, self.size, self.base)
        hidden = self.embed_tokens(input_ids)
        allowed = (places.unsqueeze(0) <= places.unsqueeze(1)).unsqueeze(0)
        allowed = paddle.logical_and(allowed, attention_mask.astype("bool").unsqueeze(1))
        least = paddle.full([], paddle.finfo(hidden.dtype).min, dtype=hidden.dtype)
        mask = paddle.where(allowed.unsqueeze(1), paddle.zeros_like(least), least)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin, mask)
        return {"logits": self.lm_head(self.norm(hidden))}


def build(config):
    return Llama(**config)


def loss(outputs, inputs):
    """The mean over the tokens that are no padding."""
    ids, keep = inputs["input_ids"][:, 1:], inputs["attention_mask"][:, 1:]
    logits = outputs["logits"][:, :-1].astype("float32")
    each = F.cross_entropy(logits, ids.unsqueeze(-1), reduction="none").squeeze(-1)
    keep = keep.astype(each.dtype)
    return (each * keep).sum() / keep.sum()
