"""A mask with a place in front: torch pads booleans, Paddle has none to pad on a CPU."""

import sys

import paddle
import torch

keep = torch.tensor([True, False])
print("torch ", torch.nn.functional.pad(keep, (1, 0), value=False).tolist())
try:
    mask = paddle.to_tensor(keep.numpy())
    print("paddle", paddle.compat.nn.functional.pad(mask, (1, 0), value=False).tolist())
except RuntimeError as error:
    print("paddle", str(error).strip()[:90])
    sys.exit(1)
