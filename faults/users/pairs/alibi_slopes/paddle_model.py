import paddle
from paddle import nn
from paddle.nn import functional as F


def slopes_of(heads):
    power = 1 << (heads.bit_length() - 1)
    steps = [(i + 1.0) / power for i in range(power)]
    steps += [(i + 0.5) / power for i in range(heads - power)]
    return [2.0 ** (-8.0 * step) for step in steps]


class Net(nn.Layer):
    def __init__(self, words, width, heads):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, words)
        self.slopes = slopes_of(heads)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        q, k, v = (t.reshape([0, 0, self.heads, -1]) for t in (q, k, v))
        scores = paddle.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k)
        place = paddle.arange(ids.shape[1])
        slopes = paddle.to_tensor(self.slopes).reshape([-1, 1, 1])
        scores = scores + slopes * place.astype(x.dtype)
        seen = place <= place.unsqueeze(1)
        scores = paddle.where(seen, scores, paddle.full_like(scores, -1e30))
        return self.out(paddle.einsum("bhts,bshd->bthd", F.softmax(scores), v).flatten(2))
