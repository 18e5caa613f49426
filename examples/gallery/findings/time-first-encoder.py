"""Which axis Paddle's TransformerEncoderLayer attends along; torch's default is the first."""

import sys

import paddle
import torch

x = torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(0))
changed = x.clone()
changed[:, 1:] += 1.0  # all but the first of the second axis
in_torch = torch.nn.TransformerEncoderLayer(16, 2, 32).eval()
in_paddle = paddle.nn.TransformerEncoderLayer(16, 2, 32)
in_paddle.eval()
apart = [float((in_torch(x) - in_torch(changed))[:, 0].abs().max())]
a, b = (in_paddle(paddle.to_tensor(value.numpy())) for value in (x, changed))
apart.append(float((a - b)[:, 0].abs().max()))
print("torch  changes by", apart[0], "where the others of the second axis change")
print("paddle changes by", apart[1])
sys.exit(apart[0] < 1e-5 < apart[1])
