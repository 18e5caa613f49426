import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2D(3, width, 3, stride=2, padding=1)
        self.branches = nn.LayerList(
            [nn.Conv2D(width, width, 3, padding=r, dilation=r) for r in (1, 2, 3)]
        )
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.project = nn.Conv2D(width * 4, width, 1)
        self.head = nn.Conv2D(width, classes, 1)
        self.side = nn.Conv2D(width, classes, 1)

    def forward(self, images):
        features = F.relu(self.stem(images))
        height, across = features.shape[2:]
        parts = [self.pool(features).tile([1, 1, height, across])]
        for branch in reversed(list(self.branches)):
            parts.insert(0, F.relu(branch(features)))
        fused = F.relu(self.project(paddle.concat(parts, axis=1)))
        size = images.shape[2:]
        outputs = {"out": F.upsample(self.head(fused), size, mode="bilinear", align_corners=True)}
        if self.training:
            outputs["aux"] = F.interpolate(self.side(features), size=size, mode="nearest")
        return outputs


def dice_loss(logits, labels):
    keep = (labels != 255).astype(logits.dtype).unsqueeze(-1)
    safe = paddle.where(labels == 255, paddle.zeros_like(labels), labels)
    hot = F.one_hot(safe, logits.shape[1]).astype(logits.dtype) * keep
    p = F.softmax(logits.transpose([0, 2, 3, 1]), axis=-1) * keep
    overlap, size = (p * hot).sum(axis=[1, 2]), (p + hot).sum(axis=[1, 2])
    return (1.0 - (2.0 * overlap + 1.0) / (size + 1.0)).mean()


def loss(outputs, inputs):
    labels = inputs["labels"]
    total = dice_loss(outputs["out"], labels)
    for name, weight in (("out", 1.0), ("aux", 0.4)):
        if name in outputs:
            each = F.cross_entropy(outputs[name], labels, ignore_index=255, axis=1)
            total = total + weight * each
    return total
