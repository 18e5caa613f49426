import paddle
from paddle import nn
from paddle.nn import functional as F


class Detector(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2D(3, width, 3, stride=2, padding=1)
        self.down = nn.Conv2D(width, width, 3, stride=2, padding=1)
        self.lateral = nn.Conv2D(width, width, 1)
        self.cls_head = nn.Conv2D(width, classes, 3, padding=1)
        self.box_head = nn.Conv2D(width, 4, 3, padding=1)

    def heads(self, level):
        batch, _, height, across = level.shape
        made = [self.box_head(level), self.cls_head(level)]
        return [x.transpose([0, 2, 3, 1]).reshape([batch, height * across, -1]) for x in made]

    def forward(self, images):
        fine = F.relu(self.stem(images))
        coarse = F.relu(self.down(fine))
        grown = F.interpolate(coarse, scale_factor=2, mode="nearest")
        coarse_boxes, coarse_scores = self.heads(coarse)
        boxes, scores = self.heads(grown + self.lateral(fine))
        scores = paddle.concat([scores, coarse_scores], axis=1)
        return scores, paddle.concat([boxes, coarse_boxes], axis=1)


def build(config):
    return Detector(**config)


def loss(outputs, inputs):
    scores, boxes = outputs
    hot = inputs["hot"].astype(scores.dtype)
    found = inputs["found"].astype(scores.dtype)
    focal = F.sigmoid_focal_loss(scores, hot, normalizer=found.sum(), alpha=0.25, gamma=2.0)
    each = F.smooth_l1_loss(boxes, inputs["boxes"].detach(), reduction="none", delta=1.0)
    return focal + (each.mean(axis=-1) * found).sum() / found.sum()
