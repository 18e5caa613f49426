"""The port: Paddle.  B batch, T tokens, C channels, H heads, D = C / H.

What a way of WAYS replaces is a function of its own; the others are as in PLAIN.
"""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F

WIDE = "float32"


def project(x, layers):
    return [layer(x) for layer in layers]


def project_once(x, layers):
    """The three as one product."""
    weight = paddle.concat([layer.weight for layer in layers], axis=1)
    bias = paddle.concat([layer.bias for layer in layers])
    return F.linear(x, weight, bias).chunk(3, axis=-1)


def dots(q, k):
    return q @ k.transpose([0, 1, 3, 2]) / math.sqrt(q.shape[-1])


def dots_of_scaled(q, k):
    return paddle.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k, transpose_y=True)


def dots_by_einsum(q, k):
    return paddle.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5


def dots_in_float32(q, k):
    return paddle.matmul(q.astype(WIDE), k.astype(WIDE), transpose_y=True) / math.sqrt(q.shape[-1])


def masked(scores, mask):
    least = paddle.finfo(scores.dtype).min
    return scores + paddle.where(mask, 0.0, least).astype(scores.dtype)


def masked_by_where(scores, mask):
    least = paddle.full([], paddle.finfo(scores.dtype).min, dtype=scores.dtype)
    return paddle.where(mask, scores, least)


def softmax(scores):
    return F.softmax(scores, axis=-1, dtype=WIDE)


def softmax_in_parts(scores):
    wide = scores.astype(WIDE)
    powers = (wide - wide.max(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def norm(x, layer):
    return layer(x)


def norm_in_parts(x, layer):
    wide = x.astype(WIDE)
    centred = wide - wide.mean(-1, keepdim=True)
    normed = centred * paddle.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-12)
    return (normed * layer.weight.astype(WIDE) + layer.bias.astype(WIDE)).astype(x.dtype)


def gelu(x):
    return F.gelu(x)


def gelu_in_parts(x):
    wide = x.astype(WIDE)
    return (0.5 * wide * (1.0 + paddle.erf(wide / math.sqrt(2.0)))).astype(x.dtype)


def residual(x, y):
    return x + y


def residual_in_float32(x, y):
    return (x.astype(WIDE) + y.astype(WIDE)).astype(x.dtype)


def mean_of_tokens(x, mask):
    kept = mask.unsqueeze(-1).astype(WIDE)
    return ((x.astype(WIDE) * kept).sum(1) / kept.sum(1)).astype(x.dtype)


def mean_by_matmul(x, mask):
    kept = mask.astype(WIDE) / mask.astype(WIDE).sum(1, keepdim=True)
    return paddle.matmul(kept.unsqueeze(1), x.astype(WIDE)).squeeze(1).astype(x.dtype)


class Attention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x, mask, way):
        """x (B, T, C), mask (B, 1, 1, T) True = keep"""
        q, k, v = (
            y.reshape([0, 0, self.heads, -1]).transpose([0, 2, 1, 3])
            for y in way["project"](x, (self.q, self.k, self.v))
        )
        scores = way["masked"](way["dots"](q, k), mask)
        weights = way["softmax"](scores).astype(x.dtype)
        return self.out((weights @ v).transpose([0, 2, 1, 3]).flatten(2))


class Block(nn.Layer):
    """Norms behind their parts, as BERT has them."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, mask, way):
        x = way["norm"](way["residual"](x, self.attention(x, mask, way)), self.norm1)
        return way["norm"](way["residual"](x, self.down(way["gelu"](self.up(x)))), self.norm2)


class Encoder(nn.Layer):
    def __init__(self, way, width, heads, layers, vocabulary):
        super().__init__()
        self.way = PLAIN | WAYS[way]
        self.words = nn.Embedding(vocabulary, width)
        self.gain = self.create_parameter([width], default_initializer=ONES)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)
        self.scale = math.sqrt(width + 0.7)

    def forward(self, tokens, mask):
        """tokens, mask (B, T), 1 = keep -> {"logits": (B, T, V), "pooled": (B, C)}"""
        x = self.words(tokens) * self.scale
        x = (x.astype(WIDE) * (1.0 + self.gain.astype(WIDE))).astype(x.dtype)
        x = self.way["norm"](x, self.norm)
        for block in self.blocks:
            x = block(x, mask.unsqueeze([1, 2]) > 0, self.way)
        pooled = paddle.tanh(self.pooler(self.way["mean"](x, mask)))
        return {"logits": self.head(x), "pooled": pooled}


def squeeze(x):
    return x.astype(WIDE).mean([2, 3]).astype(x.dtype)


def squeeze_by_pooling(x):
    return F.adaptive_avg_pool2d(x, 1).flatten(1)


def gate(x):
    return F.sigmoid(x)


def gate_in_parts(x):
    return (1.0 / (1.0 + (-x.astype(WIDE)).exp())).astype(x.dtype)


def hardswish(x):
    return F.hardswish(x)


def hardswish_in_parts(x):
    wide = x.astype(WIDE)
    return (wide * F.relu6(wide + 3.0) / 6.0).astype(x.dtype)


def batch_norm(x, layer):
    return layer(x)


def batch_norm_in_parts(x, layer):
    wide = [y.astype(WIDE).reshape([1, -1, 1, 1]) for y in (layer._mean, layer._variance)]
    normed = (x.astype(WIDE) - wide[0]) / paddle.sqrt(wide[1] + layer._epsilon)
    weight, bias = (y.astype(WIDE).reshape([1, -1, 1, 1]) for y in (layer.weight, layer.bias))
    return (normed * weight + bias).astype(x.dtype)


def batch_norm_folded(x, layer):
    factor = layer.weight.astype(WIDE) / paddle.sqrt(layer._variance.astype(WIDE) + layer._epsilon)
    shift = layer.bias.astype(WIDE) - layer._mean.astype(WIDE) * factor
    factor, shift = (y.reshape([1, -1, 1, 1]) for y in (factor, shift))
    return (x.astype(WIDE) * factor + shift).astype(x.dtype)


def group_norm(x, layer):
    return layer(x)


def group_norm_in_parts(x, layer):
    groups = x.astype(WIDE).reshape([x.shape[0], 4, -1])
    centred = groups - groups.mean(-1, keepdim=True)
    normed = centred / paddle.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
    weight, bias = (y.astype(WIDE).reshape([1, -1, 1, 1]) for y in (layer.weight, layer.bias))
    return (normed.reshape(x.shape) * weight + bias).astype(x.dtype)


def pointwise(x, layer):
    return layer(x)


def pointwise_by_matmul(x, layer):
    weight = layer.weight.squeeze([2, 3])
    return paddle.matmul(weight, x.flatten(2)).reshape(x.shape)


def pointwise_channels_last(x, layer):
    x = F.linear(x.transpose([0, 2, 3, 1]), layer.weight.squeeze([2, 3]).T)
    return x.transpose([0, 3, 1, 2])


def total(means):
    result = means[0]
    for mean in means[1:]:
        result = result + mean
    return result


def total_of_stack(means):
    return paddle.stack(means).sum(0)


def to_length_1(x):
    return F.normalize(x.astype(WIDE), axis=-1).astype(x.dtype)


def to_length_1_by_sum(x):
    wide = x.astype(WIDE)
    length = paddle.sqrt((wide * wide).sum(-1, keepdim=True)).clip(min=1e-12)
    return (wide / length).astype(x.dtype)


class Excite(nn.Layer):
    """A gate for each channel, from the mean over its image."""

    def __init__(self, width):
        super().__init__()
        self.reduce, self.expand = nn.Linear(width, width // 2), nn.Linear(width // 2, width)

    def forward(self, x, way):
        gates = way["gate"](self.expand(F.relu(self.reduce(way["squeeze"](x)))))
        return x * gates.unsqueeze([2, 3])


class Part(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2D(width, width, 3, padding=1, groups=width)
        self.norm = nn.GroupNorm(4, width)
        self.excite = Excite(width)
        self.project = nn.Conv2D(width, width, 1, bias_attr=False)

    def forward(self, x, way):
        y = way["hardswish"](way["group_norm"](self.depthwise(x), self.norm))
        return x + way["pointwise"](self.excite(y, way), self.project)


class Vision(nn.Layer):
    def __init__(self, way, width, layers, classes):
        super().__init__()
        self.way = PLAIN | WAYS[way]
        self.stem = nn.Conv2D(3, width, 3, padding=1, bias_attr=False)
        self.norm = nn.BatchNorm2D(width)
        self.parts = nn.LayerList([Part(width) for _ in range(layers)])
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, classes, bias_attr=False)
        self.scale = self.create_parameter([1], default_initializer=ONES)

    def forward(self, images):
        """images (B, 3, S, S) -> {"logits": (B, N)}"""
        x = self.way["hardswish"](self.way["batch_norm"](self.stem(images), self.norm))
        means = [x.astype(WIDE).mean([2, 3])]
        for part in self.parts:
            x = part(x, self.way)
            means.append(x.astype(WIDE).mean([2, 3]))
        x = self.mix(self.way["total"](means).astype(x.dtype))
        return {"logits": self.head(self.way["length"](x)) * self.scale.astype(WIDE).exp()}


ONES = nn.initializer.Constant(1.0)
PLAIN = {
    "project": project,
    "dots": dots,
    "masked": masked,
    "softmax": softmax,
    "norm": norm,
    "gelu": gelu,
    "residual": residual,
    "mean": mean_of_tokens,
    "squeeze": squeeze,
    "gate": gate,
    "hardswish": hardswish,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "pointwise": pointwise,
    "total": total,
    "length": to_length_1,
}
WAYS = {
    "as_torch": {},
    "queries_scaled": {"dots": dots_of_scaled},
    "softmax_in_parts": {"softmax": softmax_in_parts},
    "scores_by_einsum": {"dots": dots_by_einsum},
    "scores_in_float32": {"dots": dots_in_float32},
    "masked_by_where": {"masked": masked_by_where},
    "one_projection": {"project": project_once},
    "norm_in_parts": {"norm": norm_in_parts},
    "gelu_in_parts": {"gelu": gelu_in_parts},
    "residual_in_float32": {"residual": residual_in_float32},
    "mean_by_matmul": {"mean": mean_by_matmul},
    "batch_norm_in_parts": {"batch_norm": batch_norm_in_parts},
    "batch_norm_folded": {"batch_norm": batch_norm_folded},
    "group_norm_in_parts": {"group_norm": group_norm_in_parts},
    "squeeze_by_pooling": {"squeeze": squeeze_by_pooling},
    "gate_in_parts": {"gate": gate_in_parts},
    "hardswish_in_parts": {"hardswish": hardswish_in_parts},
    "sum_of_stack": {"total": total_of_stack},
    "length_by_sum": {"length": to_length_1_by_sum},
    "pointwise_by_matmul": {"pointwise": pointwise_by_matmul},
    "channels_last": {"pointwise": pointwise_channels_last},
}


def build(config):
    config = dict(config)
    model = {"encoder": Encoder, "vision": Vision}[config.pop("kind")](**config)
    for module in model.sublayers():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.initializer.Normal(std=0.1)(module.weight)
    return model


def loss(outputs, inputs):
    logits = outputs["logits"].astype(WIDE)
    picked = F.log_softmax(logits.flatten(0, -2), axis=-1)
    labels = inputs["labels"].flatten().unsqueeze(-1)
    return -paddle.take_along_axis(picked, labels, axis=-1).mean()
