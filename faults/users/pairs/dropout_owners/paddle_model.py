import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, vocabulary, width, heads, layers, p):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.drop = nn.Dropout(p)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, p, "gelu", attn_dropout=p, act_dropout=0.0
        )
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 3)

    def forward(self, ids, seen):
        bias = paddle.where(seen, 0.0, -1e9)[:, None, None, :]
        x = self.encoder(self.drop(self.embed(ids)), bias)
        return self.head(x[:, 0])


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
