"""The candidate.  B batch, S and T tokens, C channels.

The projections of torch's attention lie in one weight, here in three layers; the decoder's
`multihead_attn` is `cross_attn` here: both are mapped without a word in case.py.  What is a port's
own matter: the batch is always the first axis here; a boolean mask says what to keep, torch's what
to leave out (a float mask is added on both sides); and there is no mask of padded keys.  The
embedding cannot be the head's weight too, since a Linear keeps it transposed: it is used as it is.
"""

import paddle
from paddle import nn
from paddle.nn import functional as F


class SmallTransformer(nn.Layer):
    def __init__(self, vocab_size, channels, heads, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, channels)
        layer = nn.TransformerEncoderLayer(channels, heads, hidden)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.decoder = nn.TransformerDecoderLayer(
            channels, heads, hidden, activation="gelu", normalize_before=True
        )
        self.attention = nn.MultiHeadAttention(channels, heads)

    def forward(self, source, target):
        memory = self.encoder(self.embedding(source))  # (B, S, C)
        tokens = target.shape[1]
        later = paddle.triu(paddle.full([tokens, tokens], -1e9), diagonal=1)  # (T, T), to be added
        x = self.decoder(self.embedding(target), memory, later)  # (B, T, C)
        attended = self.attention(x, memory, memory)
        logits = paddle.matmul(attended, self.embedding.weight, transpose_y=True)
        return {"logits": logits, "states": [memory, {"decoded": (x,)}]}


def build(config):
    return SmallTransformer(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"].flatten(0, 1), inputs["labels"].flatten())
