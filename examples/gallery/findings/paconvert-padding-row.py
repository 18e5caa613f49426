"""The row of padding, once it is not zero: torch gives it, Paddle gives zeros."""

import sys

import paddle
import torch

layer = torch.nn.Embedding(2, 1, padding_idx=0)
layer.weight.data[:] = 3.0
one = layer(torch.tensor([0])).item()
layer = paddle.nn.Embedding(2, 1, padding_idx=0)
layer.weight.set_value(paddle.full([2, 1], 3.0))
other = layer(paddle.to_tensor([0])).item()
print("torch ", one)
print("paddle", other)
sys.exit(one != other)
