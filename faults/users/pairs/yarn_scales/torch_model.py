import math

import torch
from torch import nn


def mscale(factor, scale):
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


class Net(nn.Module):
    def __init__(self, size, factor, scale, scale_all, longest):
        super().__init__()
        self.qk = nn.Linear(size, 2 * size, bias=False)
        rates = 10000.0 ** (torch.arange(0, size, 2) / -size)
        low, high = (size / 2 * math.log(longest / n / 2 / math.pi, 10000.0) for n in (4.0, 1.0))
        low, high = max(math.floor(low), 0), min(math.ceil(high), size - 1)
        ramp = ((torch.arange(size // 2) - low) / (high - low)).clamp(0, 1)
        self.register_buffer("rates", rates / factor * ramp + rates * (1 - ramp))
        self.factor = mscale(factor, scale) / mscale(factor, scale_all)
        self.scale = size**-0.5 * mscale(factor, scale_all) ** 2

    def forward(self, x):
        angles = torch.arange(x.shape[1])[:, None] * self.rates
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos() * self.factor, angles.sin() * self.factor
        both = self.qk(x).unflatten(-1, (2, -1)).transpose(1, 2)
        a, b = both.chunk(2, -1)
        q, k = (both * cos + torch.cat((-b, a), -1) * sin).unbind(1)
        return (q @ k.mT * self.scale).softmax(-1) @ x
