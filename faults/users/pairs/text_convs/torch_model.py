import torch
from torch import nn
from torch.nn import functional as F


class TextCNN(nn.Module):
    def __init__(self, words, width, classes, sizes):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.convs = nn.ModuleList([nn.Conv1d(width, 5, k) for k in sizes])
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(5 * len(sizes), classes)

    def forward(self, ids):
        x = self.embed(ids).permute(0, 2, 1)
        pooled = [F.relu(conv(x)).max(dim=-1).values for conv in self.convs]
        return self.fc(self.drop(torch.cat(pooled, dim=1)))


def build(config):
    return TextCNN(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
