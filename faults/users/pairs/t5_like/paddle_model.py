import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


class T5Norm(nn.Layer):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = self.create_parameter([width])
        self.eps = eps

    def forward(self, x):
        variance = x.astype("float32").pow(2).mean(axis=-1, keepdim=True)
        return self.weight * (x * paddle.rsqrt(variance + self.eps)).astype(x.dtype)


def buckets_of(tokens, both, buckets, longest=12):
    """(T, T) int64, by NumPy: a table that depends on nothing that is learned."""
    apart = np.arange(tokens)[None, :] - np.arange(tokens)[:, None]
    first = np.zeros_like(apart)
    if both:
        buckets //= 2
        first = np.where(apart > 0, buckets, 0)
        apart = np.abs(apart)
    else:
        apart = np.maximum(-apart, 0)
    exact = buckets // 2
    far = np.log(np.maximum(apart, 1) / exact) / np.log(longest / exact) * (buckets - exact)
    far = np.minimum(exact + far.astype(np.int64), buckets - 1)
    return paddle.to_tensor(first + np.where(apart < exact, apart, far))


class Attention(nn.Layer):
    def __init__(self, width, heads, buckets=0, both=True):
        super().__init__()
        self.heads, self.buckets, self.both = heads, buckets, both
        self.q = nn.Linear(width, width, bias_attr=False)
        self.k = nn.Linear(width, width, bias_attr=False)
        self.v = nn.Linear(width, width, bias_attr=False)
        self.o = nn.Linear(width, width, bias_attr=False)
        self.relative = nn.Embedding(buckets, heads) if buckets else None

    def forward(self, x, memory, mask=None):
        q = self.q(x).reshape([0, 0, self.heads, -1]).transpose([0, 2, 1, 3])
        k = self.k(memory).reshape([0, 0, self.heads, -1]).transpose([0, 2, 3, 1])
        v = self.v(memory).reshape([0, 0, self.heads, -1]).transpose([0, 2, 1, 3])
        scores = paddle.matmul(q, k)
        if self.relative is not None:
            table = buckets_of(x.shape[1], self.both, self.buckets)
            scores = scores + self.relative(table).transpose([2, 0, 1])
        if mask is not None:
            scores = scores + mask.astype(scores.dtype)
        weights = F.softmax(scores.astype("float32"), axis=-1).astype(scores.dtype)
        return self.o(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).flatten(2))


class Block(nn.Layer):
    def __init__(self, width, heads, buckets, cross):
        super().__init__()
        self.norm1, self.norm2 = T5Norm(width), T5Norm(width)
        self.attention = Attention(width, heads, buckets, both=not cross)
        if cross:
            self.norm3 = T5Norm(width)
            self.cross = Attention(width, heads)
        self.wi = nn.Linear(width, 2 * width, bias_attr=False)
        self.wo = nn.Linear(2 * width, width, bias_attr=False)

    def forward(self, x, memory=None, mask=None):
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, mask)
        if memory is not None:
            x = x + self.cross(self.norm3(x), memory)
        return x + self.wo(F.relu(self.wi(self.norm2(x))))


class T5(nn.Layer):
    def __init__(self, words, width, heads, buckets, layers):
        super().__init__()
        self.shared = nn.Embedding(words, width)
        self.encoder = nn.LayerList([Block(width, heads, buckets, False) for _ in range(layers)])
        self.decoder = nn.LayerList([Block(width, heads, buckets, True) for _ in range(layers)])
        self.norm = T5Norm(width)
        self.factor = width**-0.5

    def forward(self, source, target):
        memory = self.shared(source)
        for block in self.encoder:
            memory = block(memory)
        x = self.shared(F.pad(target, [0, 0, 1, 0])[:, :-1])
        mask = paddle.triu(paddle.full([x.shape[1]] * 2, -1e9), diagonal=1)
        for block in self.decoder:
            x = block(x, memory, mask.unsqueeze(0).unsqueeze(0))
        logits = paddle.matmul(self.norm(x) * self.factor, self.shared.weight, transpose_y=True)
        return {"logits": logits, "memory": memory}


def build(config):
    return T5(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["target"].unsqueeze(-1))
