import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


class WindowAttention(nn.Layer):
    def __init__(self, dim, num_heads, window, shift):
        super().__init__()
        self.num_heads, self.window, self.shift = num_heads, window, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = self.create_parameter([(2 * window - 1) ** 2, num_heads])
        rows, columns = np.divmod(np.arange(window**2), window)
        index = (rows[:, None] - rows + window - 1) * (2 * window - 1)
        index += columns[:, None] - columns + window - 1
        self.register_buffer("index", paddle.to_tensor(index))

    def attend(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape([B, N, 3, self.num_heads, C // self.num_heads])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4])
        attn = paddle.matmul(q * (C // self.num_heads) ** -0.5, k, transpose_y=True)
        bias = paddle.gather(self.table, self.index.flatten()).reshape([N, N, -1])
        attn = F.softmax(attn + bias.transpose([2, 0, 1]).unsqueeze(0), axis=-1)
        return self.proj(paddle.matmul(attn, v).transpose([0, 2, 1, 3]).reshape([B, N, C]))

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.window
        y = self.norm(x)
        if self.shift:
            y = paddle.roll(y, shifts=[-self.shift] * 2, axis=[1, 2])
        y = y.reshape([B, H // w, w, W // w, w, C]).transpose([0, 1, 3, 2, 4, 5])
        y = self.attend(y.reshape([-1, w * w, C])).reshape([B, H // w, W // w, w, w, C])
        y = y.transpose([0, 1, 3, 2, 4, 5]).reshape([B, H, W, C])
        if self.shift:
            y = paddle.roll(y, shifts=[self.shift] * 2, axis=[1, 2])
        return x + y


class Net(nn.Layer):
    def __init__(self, width, heads, window, classes):
        super().__init__()
        self.a = WindowAttention(width, heads, window, 0)
        self.b = WindowAttention(width, heads, window, window // 2)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.b(self.a(x)).flatten(1, 2).mean(1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
