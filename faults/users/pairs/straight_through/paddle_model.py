import paddle
from paddle import nn
from paddle.nn import functional as F


def pull(moving, still):
    return (moving - still.detach()).square().mean()


class Net(nn.Layer):
    def __init__(self, features, size, codes, beta):
        super().__init__()
        self.beta = beta
        self.encode, self.decode = nn.Linear(features, size), nn.Linear(size, features)
        self.codes = nn.Embedding(codes, size)

    def forward(self, x):
        z, table = self.encode(x), self.codes.weight
        near = paddle.matmul(z, table, transpose_y=True) - 0.5 * table.square().sum(-1)
        q = paddle.matmul(F.one_hot(near.argmax(-1), table.shape[0]).astype(z.dtype), table)
        commit = self.beta * pull(z, q) + pull(q, z)
        return {"made": self.decode(q.detach() + z - z.detach()), "commit": commit}


def loss(outputs, inputs):
    return (outputs["made"] - inputs["x"]).square().mean() + outputs["commit"]
