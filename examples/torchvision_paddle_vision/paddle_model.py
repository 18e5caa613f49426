"""The candidate: the same network of paddle.vision."""

from paddle import nn
from paddle.nn import functional as F
from paddle.vision import models


class Network(nn.Layer):
    """Its logits."""

    def __init__(self, model, classes, size, corrected):
        super().__init__()
        self.network = getattr(models, model)(num_classes=classes)
        if corrected and model == "squeezenet1_1":
            correct_squeezenet(self.network)

    def forward(self, images):
        return {"logits": self.network(images)}


def correct_squeezenet(network):
    """Make paddle.vision's SqueezeNet 1.1 the one of torchvision.

    Its first convolution pads, and its dropout halves what it is given in eval mode, where torch's
    doubles in training what it keeps.
    """
    network._conv = nn.Conv2D(3, 64, 3, stride=2)
    network._drop.mode = "upscale_in_train"


def build(config):
    return Network(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
