import math

import paddle
from paddle import nn
from paddle.nn import functional as F


def standardize(x, axes, eps=1e-5):
    centred = x - x.mean(axes, keepdim=True)
    return centred / paddle.sqrt((centred * centred).mean(axes, keepdim=True) + eps)


def gelu(x):
    return 0.5 * x * (1.0 + paddle.erf(x / math.sqrt(2.0)))


class Norm(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.weight = self.create_parameter([width])
        self.bias = self.create_parameter([width], is_bias=True)

    def forward(self, x):
        return standardize(x, -1) * self.weight + self.bias


class Net(nn.Layer):
    def __init__(self, width, groups, classes):
        super().__init__()
        self.conv1 = nn.Conv2D(3, width, 3)
        self.group_scale = self.create_parameter([width])
        self.group_shift = self.create_parameter([width], is_bias=True)
        self.conv2 = nn.Conv2D(width, width, 3)
        self.norm = Norm(width)
        self.head = nn.Linear(width, classes)
        self.groups = groups

    def forward(self, images):
        x = F.pad(standardize(images, [2, 3]), [1, 1, 1, 1], mode="reflect")
        x = self.conv1(x)
        batch, width, height, across = x.shape
        x = standardize(x.reshape([batch, self.groups, -1]), -1).reshape(x.shape)
        x = x * self.group_scale.reshape([1, width, 1, 1])
        x = gelu(x + self.group_shift.reshape([1, width, 1, 1]))
        x = self.conv2(F.pad(x, [1, 1, 1, 1], mode="replicate"))
        return {"logits": self.head(gelu(self.norm(x.mean([2, 3]))))}


def loss(outputs, inputs):
    picked = F.log_softmax(outputs["logits"], axis=-1)
    return -paddle.take_along_axis(picked, inputs["labels"].unsqueeze(-1), -1).mean()
