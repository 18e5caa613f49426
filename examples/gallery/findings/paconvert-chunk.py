"""Four values in three chunks: two and two in torch, an error in Paddle."""

import sys

import paddle
import torch

print("torch ", [part.tolist() for part in torch.arange(4.0).chunk(3)])
try:
    print("paddle", [part.tolist() for part in paddle.arange(4.0).chunk(3)])
except ValueError as error:
    print("paddle", str(error).strip()[:90])
    sys.exit(1)
