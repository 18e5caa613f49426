from paddle import nn
from paddle.nn import functional as F


class Attention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x, keep):
        batch, tokens, width = x.shape
        shape = [batch, tokens, self.heads, width // self.heads]
        q, k, v = (layer(x).reshape(shape) for layer in (self.query, self.key, self.value))
        mask = keep.reshape([batch, 1, 1, tokens]).expand([batch, self.heads, tokens, tokens])
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, training=self.training)
        return self.out(x.reshape([batch, tokens, width]))


class Net(nn.Layer):
    def __init__(self, width, heads, classes):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x, keep):
        x = self.norm(x + self.attention(x, keep))
        return self.head(x[:, 0])


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
