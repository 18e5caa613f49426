from paddle import nn
from paddle.nn import functional as F


class PointNet(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.lift1 = nn.Linear(3, width)
        self.bn1 = nn.BatchNorm1D(width)
        self.lift2 = nn.Linear(width, 2 * width)
        self.bn2 = nn.BatchNorm1D(2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, points):
        batch, count, _ = points.shape
        x = self.lift1(points).reshape([batch * count, -1])  # a row a point
        x = F.relu(self.bn1(x))
        x = self.bn2(self.lift2(x))
        return self.head(x.reshape([batch, count, -1]).max(axis=1))


def build(config):
    return PointNet(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
