import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.left = nn.Linear(width, width)
        self.mix = nn.Bilinear(width, width, width)
        self.head = nn.Linear(width, classes)

    def encode(self, x):
        return paddle.tanh(self.left(x))

    def forward(self, left, right):
        b, a = self.encode(right), self.encode(left)
        return {"a": a, "b": b, "logits": self.head(self.mix(a, b))}


def loss(outputs, inputs):
    apart = paddle.sum((outputs["a"] - outputs["b"]) ** 2, axis=-1).mean()
    return F.cross_entropy(outputs["logits"], inputs["labels"]) + 0.1 * apart
