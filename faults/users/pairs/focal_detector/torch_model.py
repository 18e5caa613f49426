import torch
from torch import nn
from torch.nn import functional as F


class Detector(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.classes = classes
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.lateral = nn.Conv2d(width, width, 1)
        self.cls_head = nn.Conv2d(width, classes, 3, padding=1)
        self.box_head = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, images):
        fine = F.relu(self.stem(images))
        coarse = F.relu(self.down(fine))
        fine = self.lateral(fine) + F.interpolate(coarse, scale_factor=2.0, mode="nearest")
        levels = [fine, coarse]
        scores = [self.cls_head(x).permute(0, 2, 3, 1).flatten(1, 2) for x in levels]
        boxes = [self.box_head(x).permute(0, 2, 3, 1).flatten(1, 2) for x in levels]
        return torch.cat(scores, 1), torch.cat(boxes, 1)


def build(config):
    return Detector(**config)


def loss(outputs, inputs):
    scores, boxes = outputs
    hot = inputs["hot"].to(scores.dtype)
    found = inputs["found"].bool()
    p = torch.sigmoid(scores)
    right = p * hot + (1 - p) * (1 - hot)
    alpha = 0.25 * hot + 0.75 * (1 - hot)
    bce = F.binary_cross_entropy_with_logits(scores, hot, reduction="none")
    focal = (alpha * (1 - right) ** 2.0 * bce).sum() / found.sum()
    return focal + F.smooth_l1_loss(boxes[found], inputs["boxes"].detach()[found], beta=1.0)
