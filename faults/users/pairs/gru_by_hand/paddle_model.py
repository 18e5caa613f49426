import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, features, width):
        super().__init__()
        self.width = width
        self.inputs = nn.Linear(features, 3 * width)
        self.states = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 1)

    def step(self, x, h):
        xr, xz, xn = self.inputs(x).chunk(3, axis=-1)
        hr, hz, hn = self.states(h).chunk(3, axis=-1)
        z = F.sigmoid(xz + hz)
        n = paddle.tanh(xn + F.sigmoid(xr + hr) * hn)
        return (1.0 - z) * n + z * h

    def forward(self, x):
        h = paddle.zeros([x.shape[0], self.width], dtype=x.dtype)
        forecast = []
        for t in range(x.shape[1]):
            h = self.step(x[:, t], h)
            forecast.append(self.out(h))
        return {"forecast": paddle.concat(forecast, axis=1)}


def loss(outputs, inputs):
    return (outputs["forecast"] - inputs["target"]).abs().mean()
