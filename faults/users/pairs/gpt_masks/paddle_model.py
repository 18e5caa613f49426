import paddle
from paddle import nn
from paddle.nn import functional as F


class Attention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x, bias):
        batch, tokens, width = x.shape
        qkv = self.c_attn(x).reshape([batch, tokens, 3, self.heads, self.size])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(q / self.size**0.5, k, transpose_y=True) + bias
        y = paddle.matmul(F.softmax(scores, axis=-1), v)
        return self.c_proj(y.transpose([0, 2, 1, 3]).reshape([batch, tokens, width]))


class Block(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.act = nn.GELU(approximate=True)
        self.proj = nn.Linear(4 * width, width)

    def forward(self, x, bias):
        x = x + self.attn(self.ln_1(x), bias)
        return x + self.proj(self.act(self.fc(self.ln_2(x))))


class GPT(nn.Layer):
    def __init__(self, words, places, width, heads, layers):
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.wpe = nn.Embedding(places, width)
        self.h = nn.LayerList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids, keep):
        batch, tokens = ids.shape
        places = paddle.arange(tokens)
        position_ids = places.unsqueeze(0).expand([batch, tokens])
        seen = places.unsqueeze(0) <= places.unsqueeze(1)
        seen = paddle.logical_and(seen, keep.astype("bool").unsqueeze(1)).unsqueeze(1)
        bias = (1.0 - seen.astype(paddle.get_default_dtype())) * -1e9  # (B, 1, T, T)
        x = self.wte(ids) + self.wpe(position_ids)
        for block in self.h:
            x = block(x, bias)
        return {"logits": paddle.matmul(self.ln_f(x), self.wte.weight, transpose_y=True)}


def build(config):
    return GPT(**config)


def loss(outputs, inputs):
    ids, keep = inputs["ids"][:, 1:], inputs["keep"][:, 1:].astype("bool")
    logits = paddle.masked_select(outputs["logits"][:, :-1], keep.unsqueeze(-1))
    logits = logits.reshape([-1, outputs["logits"].shape[-1]])
    return F.cross_entropy(logits, paddle.masked_select(ids, keep))
