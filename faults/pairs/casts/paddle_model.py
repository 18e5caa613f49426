"""The port of the models that cast: Paddle.  B batch, T tokens, C channels, D = C / heads."""

import functools
import math

import numpy as np
import paddle
from paddle import cast, nn
from paddle.nn import functional as F

_SLOPES = 2.0 ** -(paddle.arange(1, 5, dtype="float32") / 3.0)  # of the heads; made on import
ONES = nn.initializer.Constant(1.0)
_SEEN = {}  # length -> distances, kept from call to call


class RMSNorm(nn.Layer):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=ONES)
        self.eps = eps

    def forward(self, x):
        wide = x.astype("float32")
        wide = wide * paddle.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.astype(x.dtype)


class PlainNorm(RMSNorm):
    """An RMSNorm without a cast."""

    def forward(self, x):
        return self.weight * x * paddle.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Rotary(nn.Layer):
    def __init__(self, size, length, base=10000.0):
        super().__init__()
        steps = paddle.arange(0, size, 2, dtype="int64").astype("float32") / size
        inverse = 1.0 / (base**steps)
        angles = paddle.outer(paddle.arange(length).cast(paddle.float32), inverse)
        self.register_buffer("angles", paddle.concat([angles, angles], -1), persistable=False)

    def forward(self, x):
        """x (B, H, T, D)"""
        angles = self.angles[: x.shape[2]].astype("float32")
        left, right = x.chunk(2, -1)
        turned = paddle.concat([-right, left], -1)
        return x * angles.cos().astype(x.dtype) + turned * angles.sin().astype(x.dtype)


class PlainRotary(nn.Layer):
    """A Rotary whose angles are made of integers in every call."""

    def __init__(self, size, length, base=10000.0):
        super().__init__()
        self.size, self.base = size, base

    def forward(self, x):
        inverse = self.base ** -(paddle.arange(0, self.size, 2) / self.size)
        angles = (paddle.arange(x.shape[2]) * 1.0).unsqueeze(-1) * inverse
        angles = paddle.concat([angles, angles], -1)
        left, right = x.chunk(2, -1)
        return x * angles.cos() + paddle.concat([-right, left], -1) * angles.sin()


class Grouped(nn.Layer):
    """Attention whose keys are shared by groups of queries."""

    rotary_class = Rotary

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q = nn.Linear(width, width, bias_attr=False)
        self.kv = nn.Linear(width, width, bias_attr=False)
        self.out = nn.Linear(width, width, bias_attr=False)
        self.rotary = self.rotary_class(self.size, 256)

    def weights(self, scores):
        return F.softmax(scores, axis=-1, dtype="float32").astype(scores.dtype)

    def forward(self, x, mask):
        B, T, C = x.shape
        q = self.q(x).reshape([B, T, self.heads, self.size]).transpose([0, 2, 1, 3])
        kv = self.kv(x).reshape([B, T, 2, self.heads // 2, self.size]).transpose([2, 0, 3, 1, 4])
        q, k, v = self.rotary(q), self.rotary(kv[0]), kv[1]
        k, v = (y.repeat_interleave(2, axis=1) for y in (k, v))
        scores = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(self.size) + mask
        return self.out((self.weights(scores) @ v).transpose([0, 2, 1, 3]).reshape([B, T, C]))


class PlainGrouped(Grouped):
    """A Grouped without a cast."""

    rotary_class = PlainRotary

    def weights(self, scores):
        return F.softmax(scores, axis=-1)


class Gated(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias_attr=False)
        self.down = nn.Linear(2 * width, width, bias_attr=False)

    def forward(self, x):
        gate, value = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * value)


class Block(nn.Layer):
    def __init__(self, norm, attention, mlp, width):
        super().__init__()
        self.norm1, self.norm2 = norm(width), norm(width)
        self.attention, self.mlp = attention, mlp

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Relative(nn.Layer):
    """Attention with a learned bias for every bucket of distances, and no scale."""

    def __init__(self, width, heads, buckets=8, farthest=16):
        super().__init__()
        self.heads, self.buckets, self.farthest = heads, buckets, farthest
        self.qkv = nn.Linear(width, 3 * width, bias_attr=False)
        self.out = nn.Linear(width, width, bias_attr=False)
        self.bias = nn.Embedding(buckets, heads)

    def bucket(self, T):
        distance = (paddle.arange(T).unsqueeze(1) - paddle.arange(T).unsqueeze(0)).abs()
        near = self.buckets // 2
        far = paddle.log(cast(distance, "float32") / near + 1e-6) / math.log(self.farthest / near)
        far = (near + far * (self.buckets - near - 1e-3)).astype("int64").clip(max=self.buckets - 1)
        return paddle.where(distance < near, distance, far)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).reshape([B, T, 3, self.heads, -1]).transpose([2, 0, 3, 1, 4])
        bias = self.bias(self.bucket(T)).transpose([2, 0, 1]).unsqueeze(0)
        scores = q @ k.transpose([0, 1, 3, 2]) + bias + mask
        weights = F.softmax(scores.astype(paddle.float32), axis=-1).type_as(scores)
        return self.out((weights @ v).transpose([0, 2, 1, 3]).reshape([B, T, C]))


class WideNorm(nn.Layer):
    """A LayerNorm in float32, whatever the model runs in."""

    def __init__(self, width):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=ONES)
        self.bias = self.create_parameter([width], is_bias=True)

    def forward(self, x):
        wide = x.astype("float32")
        centred = wide - wide.mean(-1, keepdim=True)
        normed = centred / paddle.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        return cast(normed * cast(self.weight, "float32") + self.bias.astype("float32"), x.dtype)


class Complex(nn.Layer):
    """Attention whose rotary turns are complex numbers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        turns = 10000.0 ** (-paddle.arange(0, self.size, 2).astype("float32") / self.size)
        turns = paddle.outer(paddle.arange(32, dtype="float32"), turns)
        self.register_buffer("turns", turns, persistable=False)

    def turn(self, x):
        pairs = x.astype("float32").reshape([*x.shape[:-1], -1, 2])
        turns = self.turns[: x.shape[2]]
        left = pairs[..., 0] * turns.cos() - pairs[..., 1] * turns.sin()
        right = pairs[..., 0] * turns.sin() + pairs[..., 1] * turns.cos()
        return paddle.stack([left, right], -1).flatten(3).type_as(x)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).reshape([B, T, 3, self.heads, -1]).transpose([2, 0, 3, 1, 4])
        scores = self.turn(q) @ self.turn(k).transpose([0, 1, 3, 2]) / math.sqrt(self.size) + mask
        weights = F.softmax(scores, axis=-1, dtype=paddle.float32).astype(v.dtype)
        return (weights @ v).transpose([0, 2, 1, 3]).reshape([B, T, C])


@functools.lru_cache
def positions(length, width):
    """Sines and cosines (T, C), as the first transformer had them."""
    steps = paddle.arange(0, width, 2).astype("float32") * (-math.log(10000.0) / width)
    angles = paddle.arange(length).astype("float32").unsqueeze(1) * paddle.exp(steps)
    return paddle.stack([angles.sin(), angles.cos()], -1).flatten(1)


def distances(length):
    """|i - j| (T, T), made once."""
    if length not in _SEEN:
        steps = paddle.linspace(0.0, length - 1.0, length, dtype="float32")
        _SEEN[length] = (steps.unsqueeze(1) - steps.unsqueeze(0)).abs() / 3.0
    return _SEEN[length]


class Tables(nn.Layer):
    """Attention that prefers what is near, by tables which outlive the model."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        table = np.sin(np.arange(32)[:, None] / 7.0 + np.arange(width))
        table = paddle.to_tensor(table, dtype="float32")
        self.register_buffer("table", table, persistable=False)

    def forward(self, x, mask):
        B, T, C = x.shape
        x = x + (positions(T, C) + self.table[:T]).astype(x.dtype)
        q, k, v = self.qkv(x).reshape([B, T, 3, self.heads, -1]).transpose([2, 0, 3, 1, 4])
        near = (_SLOPES.reshape([-1, 1, 1]) * distances(T)).astype(x.dtype)
        scores = q @ k.transpose([0, 1, 3, 2]) - near + mask
        weights = F.softmax(scores, axis=-1, dtype="float32").astype(x.dtype)
        return (weights @ v).transpose([0, 2, 1, 3]).reshape([B, T, C])


KINDS = {
    "decoder": (RMSNorm, Grouped),
    "relative": (RMSNorm, Relative),
    "shared": (WideNorm, Relative),
    "one_sided": (PlainNorm, PlainGrouped),
    "tables": (nn.LayerNorm, Tables),
    "complex": (WideNorm, Complex),
}


class Model(nn.Layer):
    def __init__(self, kind, width, heads, layers, vocabulary):
        super().__init__()
        norm, attention = KINDS[kind]
        self.causal = kind in ("decoder", "one_sided")
        self.words = nn.Embedding(vocabulary, width)
        one = Block(norm, attention(width, heads), Gated(width), width)
        blocks = [Block(norm, attention(width, heads), Gated(width), width) for _ in range(layers)]
        self.blocks = nn.LayerList([one] if kind == "shared" else blocks)
        self.rounds = layers if kind == "shared" else 1
        self.norm = norm(width)
        self.head = nn.Linear(width, vocabulary)
        for module in self.sublayers():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.initializer.Normal(std=0.3)(module.weight)

    def forward(self, tokens, mask):
        """tokens, mask (B, T) -> {"logits": (B, T, V)}"""
        T = tokens.shape[1]
        added = (1.0 - mask.unsqueeze([1, 2]).astype("float32")) * paddle.finfo(paddle.float32).min
        if self.causal:
            ahead = paddle.full([T, T], paddle.finfo(paddle.float32).min, dtype="float32")
            added = paddle.clip(added + paddle.triu(ahead, diagonal=1), min=-3.4e38)
        x = self.words(tokens)
        for _ in range(self.rounds):
            for block in self.blocks:
                x = block(x, added.astype(x.dtype))
        return {"logits": self.head(self.norm(x)).astype("float32")}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    logits = outputs["logits"].astype("float32")
    return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten())
