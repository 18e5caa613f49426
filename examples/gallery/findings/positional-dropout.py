"""F.dropout's third argument: `training` in torch, `axis` in Paddle."""

import sys

import paddle
import torch

ones = [64, 8]
in_torch = torch.nn.functional.dropout(torch.ones(ones), 0.5, False)
in_paddle = paddle.nn.functional.dropout(paddle.ones(ones), 0.5, False)
print("torch ", int((in_torch == 0).sum()), "of 512 dropped in eval mode")
print("paddle", int((in_paddle == 0).sum()), "of 512 dropped in eval mode")
sys.exit(bool((in_paddle == 0).any()) and not bool((in_torch == 0).any()))
