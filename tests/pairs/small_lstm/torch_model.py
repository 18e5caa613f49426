"""The reference: an LSTM and a GRU over embedded tokens; B batch, T tokens, H hidden."""

from torch import nn
from torch.nn import functional as F


class SmallLSTM(nn.Module):
    def __init__(self, vocab_size, channels, hidden, num_labels):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, channels)
        self.lstm = nn.LSTM(channels, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, num_labels)

    def forward(self, input_ids):
        x, states = self.lstm(self.embedding(input_ids))  # (B, T, 2H), two of (4, B, H)
        x, last = self.gru(x)  # (B, T, H), (1, B, H)
        return {"logits": self.head(last[0]), "states": states, "sequence": [x]}


def build(config):
    return SmallLSTM(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
