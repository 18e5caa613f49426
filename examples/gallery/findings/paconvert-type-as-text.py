"""A tensor cast to the type of another: what PaConvert makes of y.type(x.type())."""

import sys

import paddle
import torch

x = torch.ones(2)
print("torch ", torch.arange(2).type(x.type()).tolist())
x = paddle.ones([2])
try:
    print("paddle", paddle.arange(2).astype(str(x.dtype)).tolist())
except TypeError as error:
    print("paddle", error)
    sys.exit(1)
