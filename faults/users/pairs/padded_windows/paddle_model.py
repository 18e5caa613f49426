import paddle
from paddle import nn
from paddle.nn import functional as F


def regions(size, window, shift):
    return [(i >= size - window) + (i >= size - shift) for i in range(size)]


def windows(x, w):  # (B, P, Q, C) -> (B, windows, w * w, C)
    rows = paddle.stack(x.split(x.shape[1] // w, axis=1), axis=1)
    return paddle.stack(rows.split(x.shape[2] // w, axis=3), axis=2).flatten(3, 4).flatten(1, 2)


class Net(nn.Layer):
    def __init__(self, width, window, shift):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        _, H, W, C = x.shape
        w, s = self.window, self.shift
        y = F.pad(self.norm(x), [0, -W % w, 0, -H % w], data_format="NHWC")
        y = paddle.roll(y, [-s, -s], axis=[1, 2])
        P, Q = y.shape[1:3]
        rows, columns = (paddle.to_tensor(regions(n, w, s)) for n in (P, Q))
        region = windows((3 * rows.unsqueeze(1) + columns).reshape([1, P, Q, 1]), w).squeeze(-1)
        q, k, v = self.qkv(windows(y, w)).split(3, axis=-1)
        scores = paddle.matmul(q, k, transpose_y=True) / C**0.5
        apart = (region.unsqueeze(3) != region.unsqueeze(2)).astype(scores.dtype)
        y = paddle.matmul(F.softmax(scores - 1e9 * apart), v)
        y = y.reshape([-1, P // w, Q // w, w, w, C]).transpose([0, 1, 3, 2, 4, 5])
        return x + paddle.roll(y.reshape([-1, P, Q, C]), [s, s], axis=[1, 2])[:, :H, :W]
