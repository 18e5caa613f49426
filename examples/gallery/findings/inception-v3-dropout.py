"""What the dropout of paddle.vision's Inception v3 makes of 1 in eval mode."""

import sys

import paddle
import torch
from paddle.vision import models

port = models.inception_v3(num_classes=10).dropout
port.eval()
one = torch.nn.Dropout(0.5).eval()(torch.ones(1, 1)).item()
other = port(paddle.ones([1, 1])).item()
print("torchvision  ", one)
print("paddle.vision", other)
sys.exit(one != other)
