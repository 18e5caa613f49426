"""SqueezeNet 1.0: what its first pool makes of 22 x 22 values in torchvision and paddle.vision."""

import sys

import paddle.vision.models
import torch
import torchvision.models

values = [1, 96, 22, 22]
reference = torchvision.models.squeezenet1_0().features[2](torch.zeros(values))
port = paddle.vision.models.squeezenet1_0()._pool(paddle.zeros(values))
print("torchvision  ", list(reference.shape))
print("paddle.vision", list(port.shape))
sys.exit(list(reference.shape) != list(port.shape))
