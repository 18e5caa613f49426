"""What grid_sample and affine_grid take the corners for where nothing is said."""

import sys

import paddle
import torch

turn = [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
in_torch = torch.nn.functional.affine_grid(torch.tensor(turn), [1, 1, 3, 3])[0, 0, :, 0].tolist()
in_paddle = paddle.nn.functional.affine_grid(paddle.to_tensor(turn), [1, 1, 3, 3])
in_paddle = in_paddle[0, 0, :, 0].tolist()
print("torch ", in_torch)
print("paddle", in_paddle)
sys.exit(in_torch != in_paddle)
