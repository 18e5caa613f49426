"""A float times a boolean: a float in torch, an error in Paddle."""

import sys

import paddle
import torch

x, keep = torch.ones(2), torch.tensor([True, False])
print("torch ", (x * keep).tolist())
try:
    print("paddle", (paddle.to_tensor(x.numpy()) * paddle.to_tensor(keep.numpy())).tolist())
except TypeError as error:
    print("paddle", str(error).strip()[:90])
    sys.exit(1)
