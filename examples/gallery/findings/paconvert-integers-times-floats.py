"""Integers times floats: floats in torch, an error in Paddle."""

import sys

import paddle
import torch

print("torch ", (torch.arange(2) * torch.ones(2)).tolist())
try:
    print("paddle", (paddle.arange(2) * paddle.ones([2])).tolist())
except TypeError as error:
    print("paddle", str(error).strip()[:90])
    sys.exit(1)
