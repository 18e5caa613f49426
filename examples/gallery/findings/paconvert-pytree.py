"""What PaConvert leaves of torch in hyper-connections: Paddle has no such module under its name."""

import sys

import paddle
import torch

print("torch ", torch.utils._pytree.tree_flatten((1, 2))[0])
print("paddle", getattr(paddle.utils, "_pytree", "no _pytree"))
sys.exit(not hasattr(paddle.utils, "_pytree"))
