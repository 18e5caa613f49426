"""What a dropout of paddle.vision makes of 1 in eval mode, where torch's passes it on."""

import sys

import paddle
import torch
from paddle.vision import models

port = models.squeezenet1_1()._drop
port.eval()
one = torch.nn.Dropout(0.5).eval()(torch.ones(1, 1)).item()
other = port(paddle.ones([1, 1])).item()
print("torchvision  ", one)
print("paddle.vision", other)
sys.exit(one != other)
