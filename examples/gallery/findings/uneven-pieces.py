"""What PaConvert 3.3.1 puts in the place of Paddle's Tensor.split, beside torch's split."""

import sys

import paddle
import torch


def translated(x, size, dim):
    """Split as _Tensor_split does, of the paddle_utils.py that PaConvert writes."""
    return paddle.split(x, x.shape[dim] // size, dim)


in_torch = [piece.shape[0] for piece in torch.arange(8).split(3, 0)]
in_paddle = [piece.shape[0] for piece in translated(paddle.arange(8), 3, 0)]
print("torch ", in_torch)
print("paddle", in_paddle)
sys.exit(in_torch != in_paddle)
