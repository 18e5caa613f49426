"""F.dropout's third argument: `training` in torch, `axis` in Paddle."""

import sys

import paddle
import torch

ones = [4, 8]
in_torch = torch.nn.functional.dropout(torch.ones(ones), 0.5, False)
in_paddle = paddle.nn.functional.dropout(paddle.ones(ones), 0.5, False)
print("torch ", in_torch.sum().item(), "of 32 in eval mode")
print("paddle", in_paddle.sum().item(), "of 32 in eval mode")
sys.exit(in_torch.sum().item() != in_paddle.sum().item())
