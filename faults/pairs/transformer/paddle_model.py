"""The reference of the hard transformers: paddle.  B batch, T tokens, H heads, C channels."""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "selu": F.selu, "silu": F.silu}


class Attention(nn.Layer):
    """Self-attention; what the mask leaves out scores `masked`."""

    def __init__(self, width, heads, masked):
        super().__init__()
        self.heads = heads
        self.masked = masked
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x, keep):
        batch, tokens, width = x.shape
        query, key, value = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = paddle.matmul(query, key.swapaxes(-1, -2)) / math.sqrt(width // self.heads)
        masked = paddle.full_like(scores, self.masked)
        weights = F.softmax(paddle.where(keep[:, None, None, :], scores, masked), axis=-1)
        if self.masked == -math.inf:  # a row of which nothing is kept is nan
            weights = paddle.where(paddle.isnan(weights), paddle.zeros_like(weights), weights)
        x = paddle.matmul(weights, value).swapaxes(1, 2)  # (B, T, H, C / H)
        return self.out(x.reshape([batch, tokens, width]))

    def split(self, x):
        """(B, H, T, C / H) from (B, T, C)"""
        batch, tokens, width = x.shape
        return x.reshape([batch, tokens, self.heads, width // self.heads]).swapaxes(1, 2)


class Block(nn.Layer):
    """Attention and feed-forward, each with its norm before (pre) or after the residual."""

    def __init__(self, width, heads, masked, pre_norm, layer_norm_eps, activation):
        super().__init__()
        self.pre_norm = pre_norm
        self.activation = ACTIVATIONS[activation]
        self.attention = Attention(width, heads, masked)
        self.norm1 = nn.LayerNorm(width, epsilon=layer_norm_eps)
        self.norm2 = nn.LayerNorm(width, epsilon=layer_norm_eps)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, keep):
        if self.pre_norm:
            x = x + self.attention(self.norm1(x), keep)
            return x + self.down(self.activation(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x, keep))
        return self.norm2(x + self.down(self.activation(self.up(x))))


class Transformer(nn.Layer):
    """Embeddings, blocks, a norm and a classifier over the mean of the kept tokens."""

    def __init__(
        self,
        layers=12,
        width=32,
        heads=4,
        tokens=12,
        vocab_size=50,
        num_labels=6,
        pre_norm=True,
        layer_norm_eps=1e-12,
        activation="gelu",
        masked=-1e9,
        weights="initial",
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(tokens, width)
        blocks = [
            Block(width, heads, masked, pre_norm, layer_norm_eps, activation) for _ in range(layers)
        ]
        self.blocks = nn.LayerList(blocks)
        self.norm = nn.LayerNorm(width, epsilon=layer_norm_eps)
        self.head = nn.Linear(width, num_labels)

    def forward(self, input_ids, attention_mask):
        keep = attention_mask != 0  # (B, T), True = keep
        places = paddle.arange(input_ids.shape[1])
        x = self.embedding(input_ids) + self.position(places)
        for block in self.blocks:
            x = block(x, keep)
        mass = attention_mask.astype(x.dtype)[:, :, None]
        pooled = (self.norm(x) * mass).sum(axis=1) / mass.sum(axis=1).clip(min=1.0)
        return {"logits": self.head(pooled), "last_hidden_state": x}


def build(config):
    model = Transformer(**config)
    # its state becomes both sides'
    return model


def loss(outputs, inputs):
    """Cross-entropy, written out: Paddle's own stops at a logit 64 below the largest."""
    logits = outputs["logits"]
    chosen = F.one_hot(inputs["labels"], logits.shape[-1]).astype(logits.dtype)
    return (paddle.logsumexp(logits, axis=-1) - (logits * chosen).sum(axis=-1)).mean()
