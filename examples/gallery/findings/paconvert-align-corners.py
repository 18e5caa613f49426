"""Sampling at (-1, -1): a quarter of the first value in torch, all of it in Paddle."""

import sys

import paddle
import torch

one = torch.nn.functional.grid_sample(torch.ones(1, 1, 2, 2), -torch.ones(1, 1, 1, 2)).item()
grid = -paddle.ones([1, 1, 1, 2])
other = paddle.nn.functional.grid_sample(paddle.ones([1, 1, 2, 2]), grid).item()
print("torch ", one)
print("paddle", other)
sys.exit(one != other)
