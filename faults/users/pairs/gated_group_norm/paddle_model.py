import paddle
from paddle import nn


def rms(x, eps=1e-3):
    return (x.norm(axis=-1, keepdim=True).square() / x.shape[-1] + eps).sqrt()


class Net(nn.Layer):
    def __init__(self, width, groups, eps):
        super().__init__()
        self.groups = groups
        self.enter, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.weight = self.create_parameter([width])

    def forward(self, x):
        gate, x = self.enter(x).unflatten(-1, [2, -1]).unbind(-2)
        parts = (x * nn.functional.sigmoid(gate) * gate).split(self.groups, axis=-1)
        y = paddle.concat([part / rms(part) for part in parts], axis=-1)
        return self.out(self.weight * y)
