"""ShuffleNet v2 of twice the width: how many channels leave its first stage."""

import sys

import paddle.vision.models
import torch
import torchvision.models

images = [1, 3, 32, 32]
reference = torchvision.models.shufflenet_v2_x2_0().eval()
port = paddle.vision.models.shufflenet_v2_x2_0()
port.eval()
reference = reference.stage2(reference.maxpool(reference.conv1(torch.zeros(images))))
stage = port._max_pool(port._conv1(paddle.zeros(images)))
for block in port._block_list[:4]:
    stage = block(stage)
print("torchvision  ", list(reference.shape))
print("paddle.vision", list(stage.shape))
sys.exit(list(reference.shape) != list(stage.shape))
