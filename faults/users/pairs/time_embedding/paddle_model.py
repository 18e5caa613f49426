import numpy as np
import paddle
from paddle import nn


def table_of(times, width, period=10000.0):
    rates = paddle.to_tensor(period ** (np.arange(width // 2) / (width // -2)))
    angles = paddle.outer(times.astype("float64"), rates)
    return paddle.concat([paddle.cos(angles), paddle.sin(angles)], axis=-1)


class Net(nn.Layer):
    def __init__(self, width, channels):
        super().__init__()
        self.width = width
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, 2 * channels)
        self.conv = nn.Conv2D(channels, channels, 3, padding=1)

    def forward(self, x, times):
        told = self.two(nn.functional.silu(self.one(table_of(times, self.width).astype(x.dtype))))
        told = told.reshape([0, 2, -1, 1, 1])
        parts = x.reshape([0, 2, -1])
        parts = parts - parts.mean(-1, keepdim=True)
        parts = parts * paddle.rsqrt(parts.square().mean(-1, keepdim=True) + 1e-5)
        return self.conv(parts.reshape(x.shape) * (told[:, 0] + 1.0) + told[:, 1])
