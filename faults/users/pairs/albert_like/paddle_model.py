import paddle
from paddle import nn
from paddle.nn import functional as F


class Layer(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiHeadAttention(width, heads)
        self.norm1 = nn.LayerNorm(width, epsilon=1e-12)
        self.ffn = nn.Linear(width, 4 * width)
        self.act = nn.GELU(approximate=True)
        self.ffn_output = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, epsilon=1e-12)

    def forward(self, x):
        x = self.norm1(self.attention(x, x, x) + x)
        return self.norm2(self.ffn_output(self.act(self.ffn(x))) + x)


class Embeddings(nn.Layer):
    """A layer of its own in the port."""

    def __init__(self, words, small):
        super().__init__()
        self.words = nn.Embedding(words, small, padding_idx=0)
        self.kinds = nn.Embedding(2, small)
        self.places = nn.Embedding(16, small)
        self.norm = nn.LayerNorm(small, epsilon=1e-12)

    def forward(self, ids, kinds):
        places = paddle.arange(ids.shape[1]).expand_as(ids)
        return self.norm(self.places(places) + self.words(ids) + self.kinds(kinds))


class Albert(nn.Layer):
    def __init__(self, words, small, width, heads, depth):
        super().__init__()
        self.embeddings = Embeddings(words, small)
        self.wider = nn.Linear(small, width)
        self.layer = Layer(width, heads)
        self.stack = nn.LayerList([self.layer for _ in range(depth)])  # the same one, listed again
        self.dense = nn.Linear(width, small)
        self.bias = self.create_parameter([words], is_bias=True)

    def forward(self, ids, kinds):
        hidden = [self.wider(self.embeddings(ids, kinds))]
        for layer in self.stack:
            hidden.append(layer(hidden[-1]))
        x = F.tanh(self.dense(hidden[-1]))
        scores = paddle.matmul(x, self.embeddings.words.weight.T) + self.bias
        return {"scores": scores, "hidden": tuple(hidden[1:])}


def build(config):
    return Albert(**config)


def loss(outputs, inputs):
    """The mean over the guessed words; Paddle's own counts those with a label of -100 too."""
    labels = inputs["labels"]
    total = F.cross_entropy(outputs["scores"], labels, ignore_index=-100, reduction="sum")
    return total / (labels != -100).sum().astype(total.dtype)
