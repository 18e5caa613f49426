import paddle
from paddle import nn
from paddle.nn import functional as F


class Attend(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias_attr=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape([batch, tokens, 3, self.heads, width // self.heads])
        q, k, v = (t.squeeze(2).transpose([0, 2, 1, 3]) for t in qkv.split(3, axis=2))
        scores = paddle.matmul(q, k, transpose_y=True) / (width // self.heads) ** 0.5
        return self.out((F.softmax(scores) @ v).transpose([0, 2, 1, 3]).flatten(2))


class Block(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attend = Attend(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Net(nn.Layer):
    def __init__(self, width, heads, depth, classes):
        super().__init__()
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(axis=1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
