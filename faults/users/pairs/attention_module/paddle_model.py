import paddle
from paddle import nn
from paddle.nn import functional as F


class Attend(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v, self.o = nn.Linear(width, width), nn.Linear(width, width)

    def split(self, x):
        batch, tokens, width = x.shape
        return x.reshape([batch, tokens, self.heads, width // self.heads])

    def forward(self, x, memory):
        q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        scores = paddle.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        y = paddle.einsum("bhts,bshd->bthd", F.softmax(scores, axis=-1), v)
        return self.o(y.flatten(2))


class Net(nn.Layer):
    def __init__(self, width, heads, classes):
        super().__init__()
        self.attend = Attend(width, heads)
        self.head = nn.Linear(width, classes)

    def forward(self, x, memory):
        return self.head((x + self.attend(x, memory)).mean(axis=1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
