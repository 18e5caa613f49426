"""The first convolution of SqueezeNet 1.1: what it pads by in torchvision and in paddle.vision."""

import sys

import paddle.vision.models
import torch
import torchvision.models

images = [2, 3, 48, 48]
reference = torchvision.models.squeezenet1_1().features[0](torch.zeros(images))
port = paddle.vision.models.squeezenet1_1()._conv(paddle.zeros(images))
print("torchvision  ", list(reference.shape))
print("paddle.vision", list(port.shape))
sys.exit(list(reference.shape) != list(port.shape))
