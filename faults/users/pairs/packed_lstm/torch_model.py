import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, words, width, classes):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(4 * width, classes)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(
            self.embed(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, (last, _) = self.lstm(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=ids.shape[1])
        mean = states.sum(1) / lengths[:, None]
        return self.head(torch.cat([mean, last[0], last[1]], dim=-1))


def build(config):
    return Tagger(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
