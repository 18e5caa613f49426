import math

import numpy as np
import paddle
from paddle import nn


def mscale(factor, scale):
    return 1.0 + 0.1 * scale * math.log(max(factor, 1.0))


def blended(size, factor, longest, fast=4.0, slow=1.0):
    rates = np.exp(np.arange(size // 2) * (-2.0 * math.log(10000.0) / size))
    ends = [math.log(longest / (2 * math.pi * n), 10000.0) * size / 2 for n in (fast, slow)]
    low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), size - 1)
    return rates * np.interp(np.arange(size // 2), [low, high], [1.0, 1.0 / factor])


class Net(nn.Layer):
    def __init__(self, size, factor, scale, scale_all, longest):
        super().__init__()
        self.qk = nn.Linear(size, 2 * size, bias_attr=False)
        rates = paddle.to_tensor(blended(size, factor, longest))
        self.register_buffer("rates", rates.astype(paddle.get_default_dtype()))
        self.factor = mscale(factor, scale) / mscale(factor, scale_all)
        self.scale = mscale(factor, scale_all) ** 2 / math.sqrt(size)

    def forward(self, x):
        angles = paddle.outer(paddle.arange(x.shape[1]).astype(x.dtype), self.rates)
        turn = paddle.complex(paddle.cos(angles), paddle.sin(angles)).unsqueeze(1)
        halves = self.qk(x).reshape([0, 0, 2, 2, -1])
        turned = paddle.complex(halves[..., 0, :], halves[..., 1, :]) * turn * self.factor
        q, k = paddle.concat([turned.real(), turned.imag()], axis=-1).unbind(2)
        scores = paddle.matmul(q * self.scale, k, transpose_y=True)
        return paddle.matmul(nn.functional.softmax(scores), x)
