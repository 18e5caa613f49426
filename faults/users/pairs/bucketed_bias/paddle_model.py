import math

import paddle
from paddle import nn


def bucket(apart, count, farthest):
    half, exact, size = count // 2, count // 4, abs(apart)
    if size >= exact:
        size = exact + int(exact * math.log(size / exact) / math.log(farthest / exact))
    return min(size, half - 1) + half * (apart > 0)


class Net(nn.Layer):
    def __init__(self, width, count, farthest):
        super().__init__()
        self.count, self.farthest = count, farthest
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.bias = nn.Embedding(count, 1)

    def forward(self, x, queries):
        T, S = queries.shape[1], x.shape[1]
        numbers = [[bucket(s - t, self.count, self.farthest) for s in range(S)] for t in range(S)]
        hot = nn.functional.one_hot(paddle.to_tensor(numbers[S - T :]), self.count)
        bias = paddle.matmul(hot, self.bias.weight).squeeze(-1)
        scores = paddle.einsum("btc,bsc->bts", self.q(queries), self.k(x))
        return paddle.einsum("bts,bsc->btc", nn.functional.softmax(scores + bias), x)
