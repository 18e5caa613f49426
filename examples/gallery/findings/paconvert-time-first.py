"""Twelve words of one sentence, time first: does the first one see the last one?"""

import sys

import paddle
import torch

x = torch.randn(12, 1, 4)
changed = x.clone()
changed[-1] += 1
layer = torch.nn.TransformerEncoderLayer(4, 1, 8).eval()
one = bool((layer(x)[0] != layer(changed)[0]).any())
layer = paddle.nn.TransformerEncoderLayer(4, 1, 8)
layer.eval()
a, b = (layer(paddle.to_tensor(values.numpy()))[0] for values in (x, changed))
other = bool((a != b).any())
print("torch ", one)
print("paddle", other)
sys.exit(one != other)
