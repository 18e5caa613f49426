from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.pos = self.create_parameter([5, 1, width])
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, heads, 16, 0.2), layers
        )
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.drop(x + self.pos.transpose([1, 0, 2]))
        return self.head(self.encoder(x)[:, 0])


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
