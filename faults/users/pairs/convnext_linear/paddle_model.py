import paddle
from paddle import nn
from paddle.nn import functional as F


class Block(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.depthwise = nn.Conv2D(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, epsilon=1e-6)
        self.up = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * dim, dim)
        scale = nn.initializer.Constant(0.1)
        self.gamma = self.create_parameter([dim], default_initializer=scale)

    def forward(self, x):
        y = paddle.transpose(self.depthwise(x), [0, 2, 3, 1])  # (B, H, W, C)
        y = self.gamma * self.down(self.act(self.up(self.norm(y))))
        return x + paddle.transpose(y, [0, 3, 1, 2])


class ConvNeXt(nn.Layer):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.stem = nn.Conv2D(3, width, kernel_size=2, stride=2)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(blocks)])
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        return self.head(self.pool(self.blocks(self.stem(images))).flatten(1))


def build(config):
    return ConvNeXt(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
