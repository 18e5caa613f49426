import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, words, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.embed = nn.Embedding(words, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias_attr=False)

    def forward(self, ids):
        x = self.embed(ids)
        tokens = x.shape[1]
        qkv = self.qkv(x).reshape([0, 0, self.heads, 3 * self.size])
        q, k, v = paddle.split(qkv, 3, axis=-1)
        q, k, v = (t.transpose([0, 2, 1, 3]) for t in (q, k, v))
        scores = paddle.matmul(q, k, transpose_y=True) * self.size**-0.5
        later = paddle.triu(paddle.full([tokens, tokens], -1e9, dtype=scores.dtype), 1)
        y = paddle.matmul(F.softmax(scores + later), v)
        x = self.norm(x + y.transpose([0, 2, 1, 3]).reshape(x.shape))
        return {"logits": self.lm_head(x)}


def loss(outputs, inputs):
    logits = outputs["logits"][:, :-1]
    return F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), inputs["ids"][:, 1:].flatten())
