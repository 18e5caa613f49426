"""The epsilon of Inception v3's first batch norm in torchvision and in paddle.vision."""

import sys

import paddle.vision.models
import torch  # noqa: F401
import torchvision.models

network = torchvision.models.inception_v3(aux_logits=False, init_weights=False)
reference = network.Conv2d_1a_3x3.bn.eps
norms = (layer for layer in paddle.vision.models.inception_v3().sublayers())
port = next(layer for layer in norms if isinstance(layer, paddle.nn.BatchNorm2D))._epsilon
print("torchvision  ", reference)
print("paddle.vision", port)
sys.exit(reference != port)
