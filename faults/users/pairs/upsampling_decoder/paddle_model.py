import paddle
from paddle import nn
from paddle.nn import functional as F


class AutoEncoder(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2D(1, width, 4, stride=2, padding=1),
            nn.ELU(),
            nn.Conv2D(width, 2 * width, 4, stride=2, padding=1),
        )
        self.grow = nn.Conv2DTranspose(2 * width, width, 4, stride=2, padding=1)
        self.last = nn.Conv2D(width, 1, 3, padding=1)

    def forward(self, images):
        code = self.encoder(images)
        x = F.elu(self.grow(code))
        x = x.repeat_interleave(2, axis=2).repeat_interleave(2, axis=3)
        return {"image": paddle.tanh(self.last(x)), "code": code}


def build(config):
    return AutoEncoder(**config)


def loss(outputs, inputs):
    return ((outputs["image"] - inputs["images"]) ** 2).mean()
