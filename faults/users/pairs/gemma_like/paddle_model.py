import math

import paddle
from paddle import nn
from paddle.nn import functional as F


class RMSNorm(nn.Layer):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = self.create_parameter([width], is_bias=True)
        self.eps = eps

    def forward(self, x):
        states = x.astype(paddle.float32)
        states = states * paddle.rsqrt(paddle.mean(states**2, axis=-1, keepdim=True) + self.eps)
        return (states * (self.weight.astype(paddle.float32) + 1.0)).astype(x.dtype)


def soft_cap(x, cap):
    return paddle.tanh(x / cap) * cap


class Layer(nn.Layer):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.shape = [0, 0, heads, width // heads]
        self.norm1, self.norm2, self.norm3 = RMSNorm(width), RMSNorm(width), RMSNorm(width)
        for name in "qkvo":
            setattr(self, name, nn.Linear(width, width, bias_attr=False))
        self.gate = nn.Linear(width, inner, bias_attr=False)
        self.up = nn.Linear(width, inner, bias_attr=False)
        self.down = nn.Linear(inner, width, bias_attr=False)

    def attend(self, x):
        q, k, v = [layer(x).reshape(self.shape) for layer in (self.q, self.k, self.v)]
        q = q.transpose([0, 2, 1, 3]) * (1.0 / math.sqrt(q.shape[-1]))
        scores = soft_cap(paddle.matmul(q, k.transpose([0, 2, 3, 1])), 50.0)
        place = paddle.arange(x.shape[1])
        bias = paddle.where(place[:, None] >= place[None], 0.0, -1e9).astype(scores.dtype)
        weights = F.softmax(scores + bias, axis=-1, dtype="float32").astype(v.dtype)
        return self.o((weights @ v.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3]).flatten(2))

    def forward(self, x):
        x = self.norm2(self.attend(self.norm1(x))) + x
        residual, x = x, self.norm3(x)
        return residual + self.down(F.gelu(self.gate(x), approximate=True) * self.up(x))


class Gemma(nn.Layer):
    def __init__(self, words, width, heads, inner, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.LayerList([Layer(width, heads, inner) for _ in range(layers)])
        self.norm = RMSNorm(width)
        self.scale = math.sqrt(width)

    def forward(self, input_ids):
        x = self.embed(input_ids) * self.scale
        for layer in self.layers:
            x = layer(x)
        return {"logits": soft_cap(self.norm(x) @ self.embed.weight.T, 30.0)}


def build(config):
    return Gemma(**config)


def loss(outputs, inputs):
    logits, labels = outputs["logits"].astype("float32"), inputs["labels"]
    there = labels >= 0
    log_p = F.log_softmax(logits, axis=-1)
    picked = paddle.take_along_axis(log_p, labels.clip(min=0).unsqueeze(-1), axis=-1).squeeze(-1)
    return -(picked * there.astype(picked.dtype)).sum() / there.sum().astype(picked.dtype)
