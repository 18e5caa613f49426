"""The reference of the models that choose: paddle.  B batch, T tokens, C channels, E experts."""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F

from twincheck.paddle_side import choose, choose_order, choose_top_k, named


class Experts(nn.Layer):
    """Each token goes to two of the experts; every second expert is nearly its neighbour."""

    def __init__(self, width, count=6):
        super().__init__()
        self.count = count
        self.gate = nn.Linear(width, count)
        self.up = nn.Linear(width, count * width)

    def forward(self, x, keep):
        batch, tokens, width = x.shape
        scores = self.gate(x)
        pairs = scores.reshape([batch, tokens, self.count // 2, 2]).mean(axis=-1, keepdim=True)
        scores = (pairs + 1e-8 * scores.reshape([batch, tokens, self.count // 2, 2])).reshape(
            [batch, tokens, self.count]
        )
        weights, index = paddle.topk(F.softmax(scores, axis=-1), 2, axis=-1)  # (B, T, 2)
        outputs = self.up(x).reshape([batch, tokens, self.count, width])
        index = index.unsqueeze(-1).expand([batch, tokens, 2, width])
        return (paddle.take_along_axis(outputs, index, axis=2) * weights.unsqueeze(-1)).sum(axis=2)


class Codebook(nn.Layer):
    """Each token becomes the nearest of the codes, which come in pairs."""

    def __init__(self, width, count=12):
        super().__init__()
        self.codes = nn.Embedding(count, width)

    def forward(self, x, keep):
        codes = self.codes.weight  # (E, C)
        twins = paddle.concat([codes, codes + 1e-8 * codes.flip([0])], axis=0)
        distances = ((x.unsqueeze(2) - twins) ** 2).sum(axis=-1)  # (B, T, 2E)
        nearest = paddle.argmin(distances, axis=-1)
        chosen = F.one_hot(nearest, twins.shape[0]).astype(x.dtype)
        return x + (paddle.matmul(chosen, twins) - x)


class Pruned(nn.Layer):
    """Attention that only the T / 3 best queries take part in, as in ProbSparse attention."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.mix = nn.Linear(width, width)

    def forward(self, x, keep):
        scores = self.score(x).squeeze(-1)  # (B, T)
        scores = scores.masked_fill(keep == 0, -math.inf)
        index = scores.topk(x.shape[1] // 3, axis=-1)[1]
        index = index.unsqueeze(-1).expand([-1, -1, x.shape[2]])
        chosen = paddle.take_along_axis(x, index, axis=1)
        return x.mean(axis=1, keepdim=True) + paddle.tanh(self.mix(chosen))


class Sorted(nn.Layer):
    """Tokens in the order of their scores, then a sum by position."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.place = nn.Embedding(24, width)

    def forward(self, x, keep):
        order = paddle.argsort(self.score(x).squeeze(-1), axis=-1, descending=True)
        order = order.unsqueeze(-1).expand([-1, -1, x.shape[2]])
        return paddle.take_along_axis(x, order, axis=1) * self.place.weight


class Hashed(nn.Layer):
    """A bucket for each token by the largest of rotations and their opposites."""

    def __init__(self, width, buckets=4):
        super().__init__()
        self.rotation = nn.Linear(width, buckets // 2, bias_attr=False)
        self.values = nn.Embedding(buckets, width)

    def forward(self, x, keep):
        turned = self.rotation(x - x.roll(1, 1))
        buckets = paddle.concat([turned, -turned], axis=-1).argmax(-1)
        return x * self.values(buckets)


class Asked(nn.Layer):
    """The same by the workbench's own choose, choose_top_k and choose_order."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x, keep):
        scores = self.score(x).squeeze(-1)  # (B, T)
        best = choose(self, "best", scores)
        few = choose_top_k(self, "few", scores, 5)
        order = choose_order(self, "order", scores)
        index = paddle.concat([best.unsqueeze(-1), few, order], axis=-1)
        index = index.unsqueeze(-1).expand([-1, -1, x.shape[2]])
        return paddle.take_along_axis(x, index, axis=1) * paddle.sigmoid(scores).mean()


class LargestOfAll(nn.Layer):
    """The place of the largest value of a sample, and of all samples together."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, keep):
        y = self.mix(x)
        here = y.reshape([y.shape[0], -1]).argmax(-1, keepdim=True)
        there = paddle.argmax(y)
        picked = paddle.take_along_axis(y.reshape([y.shape[0], -1]), here, axis=1)  # (B, 1)
        return paddle.tanh(y) * picked.unsqueeze(-1) + y.reshape([-1])[there]


KINDS = {
    "experts": Experts,
    "codebook": Codebook,
    "pruned": Pruned,
    "sorted": Sorted,
    "hashed": Hashed,
    "asked": Asked,
    "largest_of_all": LargestOfAll,
}


class Model(nn.Layer):
    """One choosing layer between two linear ones."""

    def __init__(self, kind, width=16, num_labels=5):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.layer = KINDS[kind](width)
        self.last = nn.Linear(width, width)
        self.head = nn.Linear(width, num_labels)

    def forward(self, x, keep):
        x = self.last(self.layer(self.first(x), keep))
        return {"logits": self.head(paddle.tanh(x).mean(axis=1)), "hidden": x}


def build(config):
    return named(Model(**config))


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
