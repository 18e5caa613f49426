"""The reference: a network of torchvision."""

import sys

import torch
from torch import nn
from torch.nn import functional as F


def import_models():
    """torchvision.models, also where torch is built for the CPU and torchvision for CUDA.

    Its compiled operators are missing then, and two of them must be declared for the import; none
    of these networks uses one.
    """
    try:
        from torchvision import models
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        global operators  # they are there as long as this is
        operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        from torchvision import models
    return models


class Network(nn.Module):
    """Its logits."""

    def __init__(self, model, classes, size, corrected):
        super().__init__()
        self.network = getattr(import_models(), model)(num_classes=classes)

    def forward(self, images):
        return {"logits": self.network(images)}


def build(config):
    return Network(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
