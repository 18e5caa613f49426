import paddle
from paddle import nn
from paddle.nn import functional as F


class DeepFM(nn.Layer):
    def __init__(self, fields, width):
        super().__init__()
        self.tables = nn.LayerList([nn.Embedding(size, width) for size in fields])
        self.linear = nn.LayerList([nn.Embedding(size, 1) for size in fields])
        self.dense = nn.Linear(2, 1)
        self.deep = nn.Sequential(
            nn.Linear(3 * width + 2, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Linear(8, 1)
        )

    def forward(self, fields, dense):
        columns = fields.unbind(axis=1)
        vectors = paddle.stack([t(c) for t, c in zip(self.tables, columns, strict=True)], axis=1)
        square = vectors.sum(axis=1).square() - vectors.square().sum(axis=1)
        logit = 0.5 * square.sum(axis=1, keepdim=True) + self.dense(dense)
        for table, column in zip(self.linear, columns, strict=True):
            logit = logit + table(column)
        logit = logit + self.deep(paddle.concat([vectors.flatten(1), dense], axis=1))
        return F.sigmoid(logit)[:, 0]


def build(config):
    return DeepFM(**config)


def loss(outputs, inputs):
    clicked = inputs["clicked"].detach()
    return F.binary_cross_entropy(outputs, clicked)
