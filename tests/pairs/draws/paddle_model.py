"""The candidate: draws scaled by hand, the second tower first, a wrapper around the drop path."""

import paddle
from paddle import nn
from paddle.nn import functional as F


class Path(nn.Layer):
    def __init__(self, p):
        super().__init__()
        self.keep = 1.0 - p

    def forward(self, x):
        if not self.training:
            return x
        kept = paddle.floor(self.keep + paddle.rand([x.shape[0], 1, 1], dtype=x.dtype))
        return x / self.keep * kept


class Tower(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.mean = nn.Linear(width, width)
        self.log_variance = nn.Linear(width, width)

    def forward(self, x):
        mean, log_variance = self.mean(x), self.log_variance(x)
        return paddle.normal(mean, paddle.exp(0.5 * log_variance))


class Draws(nn.Layer):
    def __init__(self, width, p):
        super().__init__()
        self.steps = nn.Embedding(10, width)
        self.a, self.b = Tower(width), Tower(width)
        self.blocks = nn.Sequential(nn.Sequential(Path(p)))
        self.code = nn.Linear(width, 5)
        self.book = nn.Linear(5, width)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens):
        x = tokens + self.steps(paddle.randint(0, 10, [tokens.shape[0]])).unsqueeze(1)
        order = paddle.uniform(x.shape[:2], min=0.0).argsort(axis=1)[:, :4]
        x = paddle.take_along_axis(x, order.unsqueeze(-1).expand([-1, -1, x.shape[-1]]), axis=1)
        x = x + (paddle.randn(x.shape) * 0.1 + 0.5)
        b = self.b(x)
        x = x + self.blocks(self.a(x) * b)
        paddle.seed(3)
        hidden = paddle.rand(x.shape[:2]) < 0.3
        x = x.masked_fill(hidden.unsqueeze(-1), 0.0)
        code = self.book(F.gumbel_softmax(self.code(x), temperature=0.7, hard=True))
        spread = 0.1 + F.sigmoid(code)
        x = x + paddle.distribution.Normal(code, spread).rsample()
        x = x + F.rrelu(x, training=True) + paddle.bernoulli(spread.detach().clip(0, 1))
        return {"logits": self.head(x.mean(axis=1))}


def build(config):
    return Draws(**config)


def loss(outputs, inputs):
    uniform = paddle.rand(outputs["logits"].shape)
    noisy = outputs["logits"] - paddle.log(uniform) / 2.0
    return F.cross_entropy(noisy, inputs["labels"])
