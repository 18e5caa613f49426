import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.size = width // heads
        self.owners = [head * kv_heads // heads for head in range(heads)]
        self.q, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * kv_heads * self.size)

    def forward(self, x, past):
        q = self.q(x).reshape([0, 0, -1, self.size])
        k, v = self.kv(paddle.concat([past, x], axis=1)).split(2, axis=-1)
        owners = paddle.to_tensor(self.owners)
        k, v = (t.reshape([0, 0, -1, self.size]).index_select(owners, axis=2) for t in (k, v))
        scores = paddle.einsum("bthd,bshd->btsh", q, k) * self.size**-0.5
        place = paddle.arange(k.shape[1])
        later = place > place[past.shape[1] :].unsqueeze(1)
        scores = scores.masked_fill(later.unsqueeze(-1), -float("inf"))
        return self.out(paddle.einsum("btsh,bshd->bthd", F.softmax(scores, axis=2), v).flatten(2))
