"""The gradient of a tensor that is cast to booleans and back."""

import sys

import paddle
import torch

there = torch.tensor([0.5, 0.0, 2.0], requires_grad=True)
here = paddle.to_tensor([0.5, 0.0, 2.0], stop_gradient=False)
for x in (there, here):
    (x + x.bool().to(x)).sum().backward()
print("torch ", there.grad.tolist())
print("paddle", here.grad.tolist())
sys.exit(there.grad.tolist() != here.grad.tolist())
