import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


class DropPath(nn.Layer):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if self.rate == 0.0 or not self.training:
            return x
        keep_prob = 1.0 - self.rate
        random_tensor = keep_prob + paddle.rand([x.shape[0], 1, 1]).astype(x.dtype)
        return x / keep_prob * paddle.floor(random_tensor)


class Block(nn.Layer):
    def __init__(self, width, rate):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.drop_path = DropPath(rate)

    def forward(self, x):
        return x + self.drop_path(self.fc2(F.gelu(self.fc1(self.norm(x)))))


class Net(nn.Layer):
    def __init__(self, width, depth, rate, classes):
        super().__init__()
        rates = np.linspace(0.0, rate, depth).tolist()
        self.blocks = nn.Sequential(*[Block(width, r) for r in rates])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(x).mean(axis=1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
