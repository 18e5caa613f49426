import paddle
from paddle import nn
from paddle.nn import functional as F


class Capsules(nn.Layer):
    def __init__(self, capsules, size, classes, out):
        super().__init__()
        self.weight = self.create_parameter([classes, capsules, out, size])

    @staticmethod
    def squash(s):
        square = paddle.sum(s * s, axis=-1, keepdim=True)
        return s * square / ((1.0 + square) * (square + 1e-8).sqrt())

    def forward(self, x):
        u = paddle.matmul(self.weight.unsqueeze(0), x.unsqueeze(1).unsqueeze(-1))
        u = u.squeeze(-1)  # (B, J, N, O)
        logits = paddle.zeros(u.shape[:3], dtype=x.dtype)
        for _ in range(2):
            share = F.softmax(logits, axis=1).unsqueeze(2)  # (B, J, 1, N)
            v = self.squash(paddle.matmul(share, u))  # (B, J, 1, O)
            logits = logits + (u * v).sum(-1)
        share = F.softmax(logits, axis=1).unsqueeze(2)
        v = self.squash(paddle.matmul(share, u)).squeeze(2)
        return {"lengths": paddle.linalg.norm(v, axis=-1)}


def build(config):
    return Capsules(**config)


def loss(outputs, inputs):
    lengths = outputs["lengths"]
    hot = F.one_hot(inputs["labels"], lengths.shape[1]).astype("bool")
    right = paddle.clip(0.9 - lengths, min=0.0).square()
    wrong = 0.5 * paddle.clip(lengths - 0.1, min=0.0).square()
    return paddle.where(hot, right, wrong).sum(axis=1).mean()
