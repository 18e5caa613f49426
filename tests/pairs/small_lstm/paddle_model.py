"""The candidate.  B batch, T tokens, H hidden.

The weights of nn.LSTM and nn.GRU have the same names, shapes and order of gates on both sides.
What is a port's own matter: the batch is the first axis here unless `time_major=True`, in torch
only with `batch_first=True`; both directions are `direction="bidirect"`.  A layer's `dropout` is
not drawn from the tape: the workbench runs recurrent layers with dropout 0 in every mode, on both
sides, and in train mode compares the rates.
"""

from paddle import nn
from paddle.nn import functional as F


class SmallLSTM(nn.Layer):
    def __init__(self, vocab_size, channels, hidden, num_labels):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, channels)
        self.lstm = nn.LSTM(channels, hidden, num_layers=2, direction="bidirect")
        self.gru = nn.GRU(2 * hidden, hidden)
        self.head = nn.Linear(hidden, num_labels)

    def forward(self, input_ids):
        x, states = self.lstm(self.embedding(input_ids))  # (B, T, 2H), two of (4, B, H)
        x, last = self.gru(x)  # (B, T, H), (1, B, H)
        return {"logits": self.head(last[0]), "states": states, "sequence": [x]}


def build(config):
    return SmallLSTM(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
