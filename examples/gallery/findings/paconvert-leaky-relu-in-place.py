"""LeakyReLU in place: torch builds it, Paddle does not know the argument."""

import sys

import paddle
import torch

print("torch ", torch.nn.LeakyReLU(inplace=True))
try:
    print("paddle", paddle.nn.LeakyReLU(inplace=True))
except TypeError as error:
    print("paddle", error)
    sys.exit(1)
