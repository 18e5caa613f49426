import paddle
from paddle import nn
from paddle.nn import functional as F


class Block(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, 2 * width)
        self.linear2 = nn.Linear(2 * width, width)

    def attend(self, x, bias):
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        q, k, v = (t.reshape([0, 0, self.heads, -1]).transpose([0, 2, 1, 3]) for t in (q, k, v))
        scores = q @ k.transpose([0, 1, 3, 2]) / q.shape[-1] ** 0.5 + bias
        return self.out((F.softmax(scores) @ v).transpose([0, 2, 1, 3]).flatten(2))

    def forward(self, x, bias):
        x = x + self.attend(self.norm1(x), bias)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Encoder(nn.Layer):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.layers = nn.LayerList([Block(width, heads) for _ in range(layers)])

    def forward(self, x, bias):
        for layer in self.layers:
            x = layer(x, bias)
        return x


class Net(nn.Layer):
    def __init__(self, width, heads, layers, classes):
        super().__init__()
        self.encoder = Encoder(width, heads, layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x, padding):
        bias = paddle.where(padding, paddle.full([], -1e9, x.dtype), paddle.zeros([], x.dtype))
        return self.head(self.encoder(x, bias[:, None, None, :]))


def loss(outputs, inputs):
    labels = inputs["labels"].unsqueeze(-1)
    each = F.cross_entropy(outputs, labels, reduction="none", ignore_index=-100)
    return each.sum() / (labels >= 0).astype(each.dtype).sum()
