import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self, features, tags):
        super().__init__()
        self.emit = nn.Linear(features, tags)
        self.moves = self.create_parameter([tags, tags])

    def forward(self, x, keep, labels):
        emit = self.emit(x)
        keep = keep.astype(x.dtype)
        hot = nn.functional.one_hot(labels, emit.shape[-1]).astype(x.dtype)
        top = every = emit[:, 0]
        told, last = (every * hot[:, 0]).sum(-1), hot[:, 0]
        for t in range(1, x.shape[1]):
            step, kept = emit[:, t], keep[:, t : t + 1]
            above = (top.unsqueeze(2) + self.moves).max(1) + step
            summed = paddle.logsumexp(every.unsqueeze(2) + self.moves, axis=1) + step
            gained = hot[:, t] * (paddle.matmul(last, self.moves) + step)
            told = told + kept[:, 0] * gained.sum(-1)
            top = top + kept * (above - top)
            every = every + kept * (summed - every)
            last = last + kept * (hot[:, t] - last)
        return {"best": top.max(-1), "loss": (paddle.logsumexp(every, axis=-1) - told).mean()}
