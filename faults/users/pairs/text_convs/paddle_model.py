import paddle
from paddle import nn
from paddle.nn import functional as F


class TextCNN(nn.Layer):
    def __init__(self, words, width, classes, sizes):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.convs = nn.LayerList([nn.Conv2D(1, 5, (k, width)) for k in sizes])
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(5 * len(sizes), classes)

    def pooled(self, x, conv):
        x = conv(x).squeeze(3)  # (B, 5, T - k + 1)
        return F.relu(x.max(axis=2))  # the same, and fewer numbers for relu

    def forward(self, ids):
        x = self.embed(ids).unsqueeze(1)
        x = paddle.concat([self.pooled(x, conv) for conv in self.convs], axis=1)
        return self.fc(self.drop(x))


def build(config):
    return TextCNN(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
