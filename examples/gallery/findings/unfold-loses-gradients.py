"""The gradient of unfold where its windows overlap: each of five ones is in one or two windows."""

import paddle
import torch

ones = torch.ones(5, requires_grad=True)
ones.unfold(0, 2, 1).sum().backward()
same = paddle.ones([5])
same.stop_gradient = False
same.unfold(0, 2, 1).sum().backward()
print("torch ", ones.grad.tolist())
print("paddle", same.grad.tolist())
raise SystemExit(int(ones.grad.tolist() != same.grad.tolist()))
