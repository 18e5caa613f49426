import paddle
import paddle.nn.functional as F
from paddle import nn


class Convs(nn.Layer):
    def __init__(self, width, layout):
        super().__init__()
        self.conv = nn.Conv1D(width, width, 3, padding=1, data_format=layout)
        self.norm = nn.BatchNorm1D(width, data_format=layout)
        self.act = nn.GELU()

    def forward(self, x):
        """x (B, C, T), or (B, T, C) with channels last"""
        return self.act(self.norm(self.conv(x)))


class Attend(nn.Layer):
    def __init__(self, width, means):
        super().__init__()
        self.means = means
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, T): what is padding, what is seen, or what is added to scores"""
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        scores = (q @ k.mT) / x.shape[-1] ** 0.5
        mask = mask[:, None, :]
        if self.means == "added":
            scores = scores + mask
        else:
            padding = mask if self.means == "padding" else ~mask.astype(bool)
            scores = scores.masked_fill(padding, float("-inf"))
        return self.out(F.softmax(scores, -1) @ v)


class Tagger(nn.Layer):
    def __init__(self, width, classes, mask, last, time_first, **other):
        super().__init__()
        self.means, self.last, self.time_first = mask, last, time_first
        layout = "NLC" if last else "NCL"
        self.convs = nn.Sequential(Convs(width, layout), Convs(width, layout))
        self.attend = Attend(width, mask)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def mask(self, x, lengths):
        padding = paddle.arange(x.shape[2])[None] >= lengths[:, None]
        if self.means == "padding":
            return padding
        if self.means == "added":
            return padding.astype(x.dtype) * -1e9
        return ~padding if self.means == "seen_bool" else (~padding).astype(x.dtype)

    def forward(self, x, lengths):
        mask = self.mask(x, lengths)
        if self.last:
            x = self.convs(x.transpose([0, 2, 1]))
        else:
            x = self.convs(x).transpose([0, 2, 1])
        x = self.norm(x + self.attend(x, mask=mask))
        if self.time_first:
            rows = x.transpose([1, 0, 2])
            logits = self.head(rows.flatten(0, 1)).reshape([*rows.shape[:2], -1])
            logits = logits.transpose([1, 0, 2])
        else:
            logits = self.head(x.flatten(0, 1)).reshape([*x.shape[:2], -1])
        return {"log_probs": F.log_softmax(logits, -1)}


def build(config):
    return Tagger(**config)


def loss(outputs, inputs):
    return F.nll_loss(outputs["log_probs"].flatten(0, 1), inputs["labels"].flatten())
