import paddle
from paddle import nn


def gathered(values, target, count):
    zeros = paddle.zeros([count, *values.shape[1:]], dtype=values.dtype)
    return paddle.scatter_nd_add(zeros, target.unsqueeze(1), values)


class Net(nn.Layer):
    def __init__(self, features, width):
        super().__init__()
        self.lin = nn.Linear(features, width, bias_attr=False)
        self.bias = self.create_parameter([width])

    def forward(self, x, edges):
        source, target = edges
        ones = paddle.ones([edges.shape[1], 1], dtype=x.dtype)
        root = paddle.rsqrt(gathered(ones, target, x.shape[0]) + 1.0)
        sent = self.lin(x * root)
        return root * (gathered(sent[source], target, x.shape[0]) + sent) + self.bias
