import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self, width, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, keep):
        q, k, v = self.qkv(x).reshape([0, 0, self.heads, 3, -1]).unbind(3)
        place = paddle.arange(x.shape[1])
        apart = place.unsqueeze(1) - place
        near = paddle.logical_and(apart >= 0, apart < self.window)
        near = paddle.logical_and(near, paddle.logical_or(keep.unsqueeze(1), apart == 0))
        scores = paddle.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
        weights = (scores - scores.max(-1, keepdim=True)).exp() * near.unsqueeze(1).astype(x.dtype)
        weights = weights / weights.sum(-1, keepdim=True)
        return self.out(paddle.einsum("bhts,bshd->bthd", weights, v).flatten(2))
