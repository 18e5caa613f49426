import paddle
from paddle import nn
from paddle.nn import functional as F


def normalized_adjacency(edges, count, dtype):
    matrix = paddle.eye(count, dtype=dtype)
    index = paddle.stack([edges[1], edges[0]], axis=1)
    matrix = paddle.scatter_nd_add(matrix, index, paddle.ones([edges.shape[1]], dtype=dtype))
    root = paddle.rsqrt(matrix.sum(axis=1))
    return root.unsqueeze(1) * matrix * root.unsqueeze(0)


class GCNConv(nn.Layer):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.lin = nn.Linear(c_in, c_out, bias_attr=False)
        self.bias = self.create_parameter([c_out], is_bias=True)

    def forward(self, x, adjacency):
        return adjacency @ self.lin(x) + self.bias


class GCN(nn.Layer):
    def __init__(self, features, width, classes):
        super().__init__()
        self.conv1 = GCNConv(features, width)
        self.conv2 = GCNConv(width, classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, edges):
        adjacency = normalized_adjacency(edges, x.shape[0], x.dtype)
        hidden = self.dropout(F.relu(self.conv1(x, adjacency)))
        return F.log_softmax(self.conv2(hidden, adjacency), axis=-1)


def build(config):
    return GCN(**config)


def loss(outputs, inputs):
    return F.nll_loss(outputs, inputs["labels"])
