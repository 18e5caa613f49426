"""GoogLeNet of torchvision and of paddle.vision: batch norms, and the third branch's kernel."""

import sys

import paddle.vision.models
import torch
import torchvision.models

reference = torchvision.models.googlenet(init_weights=False, aux_logits=False)
port = paddle.vision.models.googlenet()
one = sum(isinstance(layer, torch.nn.BatchNorm2d) for layer in reference.modules())
other = sum(isinstance(layer, paddle.nn.BatchNorm2D) for layer in port.sublayers())
kernels = reference.inception3a.branch3[1].conv.kernel_size, port._ince3a._conv5._conv.weight.shape
print(f"torchvision    {one} batch norms, a kernel of {list(kernels[0])}")
print(f"paddle.vision  {other} batch norms, a kernel of {list(kernels[1][2:])}")
sys.exit(one != other and list(kernels[0]) != list(kernels[1][2:]))
