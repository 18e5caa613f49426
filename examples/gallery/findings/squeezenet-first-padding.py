"""The first convolution of SqueezeNet 1.1: what it pads by in torchvision and in paddle.vision."""

import sys

import paddle.vision.models
import torch
import torchvision.models

images = [2, 3, 48, 48]
theirs = torchvision.models.squeezenet1_1().features[0](torch.zeros(images))
ours = paddle.vision.models.squeezenet1_1()._conv(paddle.zeros(images))
print("torchvision ", list(theirs.shape))
print("paddle.vision", list(ours.shape))
sys.exit(list(theirs.shape) != list(ours.shape))
