import paddle
from paddle import nn
from paddle.nn import functional as F


class Tagger(nn.Layer):
    def __init__(self, words, width, classes):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, direction="bidirect")
        self.head = nn.Linear(4 * width, classes)

    def forward(self, ids, lengths):
        states, (last, _) = self.lstm(self.embed(ids), sequence_length=lengths)
        count = lengths.astype(states.dtype).unsqueeze(-1)
        features = [states.sum(axis=1) / count, last[0], last[1]]
        return self.head(paddle.concat(features, axis=-1))


def build(config):
    return Tagger(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
