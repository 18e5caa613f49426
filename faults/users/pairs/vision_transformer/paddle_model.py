import paddle
from paddle import nn
from paddle.nn import functional as F


class Block(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, epsilon=1e-6)
        self.attn = nn.MultiHeadAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, epsilon=1e-6)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Layer):
    def __init__(self, width, patch, size, heads, classes):
        super().__init__()
        self.patch, self.side = patch, size // patch
        self.patches = nn.Linear(3 * patch * patch, width)
        self.cls_token = self.create_parameter([1, 1, width])
        self.positions = self.create_parameter([1, self.side**2 + 1, width])
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(2)])
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        n, p = self.side, self.patch
        x = images.reshape([-1, 3, n, p, n, p]).transpose([0, 2, 4, 1, 3, 5])
        x = self.patches(x.reshape([-1, n * n, 3 * p * p]))
        first = self.cls_token.tile([x.shape[0], 1, 1])
        x = self.blocks(paddle.concat([first, x], axis=1) + self.positions)
        return {"logits": self.head(x[:, 0])}


def build(config):
    return ViT(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
