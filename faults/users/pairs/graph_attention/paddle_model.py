import paddle
from paddle import nn
from paddle.nn import functional as F


class GATConv(nn.Layer):
    """By a dense table of scores in which there is no edge at -inf."""

    def __init__(self, c_in, c_out, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(c_in, heads * c_out, bias_attr=False)
        self.att_source = self.create_parameter([heads, c_out])
        self.att_target = self.create_parameter([heads, c_out])

    def forward(self, x, edges):
        count = x.shape[0]
        h = self.lin(x).reshape([count, self.heads, -1])
        from_source = (h * self.att_source).sum(-1).T  # (H, N)
        to_target = (h * self.att_target).sum(-1).T
        score = F.leaky_relu(to_target.unsqueeze(2) + from_source.unsqueeze(1), 0.2)
        linked = paddle.zeros([count, count], dtype="int64")
        index = paddle.stack([edges[1], edges[0]], axis=1)
        ones = paddle.ones([edges.shape[1]], dtype="int64")
        linked = paddle.scatter_nd_add(linked, index, ones) > 0
        score = paddle.where(linked, score, paddle.full_like(score, float("-inf")))
        share = paddle.exp(score - score.max(axis=-1, keepdim=True).detach())
        share = share / (share.sum(axis=-1, keepdim=True) + 1e-16)
        out = paddle.matmul(share, h.transpose([1, 0, 2]))  # (H, N, C)
        return out.transpose([1, 0, 2]).reshape([count, -1])


class GAT(nn.Layer):
    def __init__(self, features, width, heads, classes):
        super().__init__()
        self.conv1 = GATConv(features, width, heads)
        self.conv2 = GATConv(heads * width, classes, 1)

    def forward(self, x, edges):
        return {"logits": self.conv2(F.elu(self.conv1(x, edges)), edges)}


def build(config):
    return GAT(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
