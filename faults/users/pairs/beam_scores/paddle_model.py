import paddle
from paddle import nn


def penalty(count, alpha=0.7):
    return count.astype(paddle.get_default_dtype()).pow(alpha)


class Net(nn.Layer):
    def __init__(self, words, width, end, alpha):
        super().__init__()
        self.end = end
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.rnn = nn.GRU(width, width)

    def forward(self, ids, prompt):
        logits = self.head(self.rnn(self.embed(ids[:, :-1]))[0])
        hot = nn.functional.one_hot(ids[:, 1:], logits.shape[-1]).astype(logits.dtype)
        each = (logits * hot).sum(-1) - paddle.logsumexp(logits, axis=-1)
        made = paddle.arange(1, ids.shape[1]) >= prompt.unsqueeze(1)
        ends = paddle.logical_and(ids[:, 1:] == self.end, made).astype("int64")
        made = paddle.logical_and(made, ends.cumsum(1) - ends == 0)
        total = paddle.where(made, each, paddle.zeros_like(each)).sum(1)
        scores = total / penalty(made.sum(1))
        return {"scores": scores, "best": scores.argmax()}
