"""The reference: every output is one layer's, so that a wrong one is seen by its name."""

import torch
from torch import nn


def norm_and_conv(conv, transposed, batch_norm, instance_norm, c):
    return nn.Sequential(
        conv(c, 2 * c, 2),
        batch_norm(2 * c),
        nn.PReLU(2 * c),
        transposed(2 * c, c, 2),
        instance_norm(c, eps=1e-9, affine=True),
    )


class LayerZoo(nn.Module):
    def __init__(self, channels):
        super().__init__()
        c = channels
        self.line = norm_and_conv(
            nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.InstanceNorm1d, c
        )
        self.plane = norm_and_conv(
            nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.InstanceNorm2d, c
        )
        self.volume = norm_and_conv(
            nn.Conv3d, nn.ConvTranspose3d, nn.BatchNorm3d, nn.InstanceNorm3d, c
        )
        self.grouped = nn.Conv2d(c, c, 3, padding=1, groups=2)
        self.group_norm = nn.GroupNorm(2, c)
        self.embedding = nn.Embedding(5, c, padding_idx=0)
        self.layer_norm = nn.LayerNorm(c)
        self.square = nn.Linear(c, c)
        self.bilinear = nn.Bilinear(c, c, 2)
        self.lstm_cell = nn.LSTMCell(c, 3)
        self.gru_cell = nn.GRUCell(c, 3)
        self.rnn = nn.RNN(c, 3, batch_first=True)
        self.attention = nn.MultiheadAttention(c, 2, kdim=3, vdim=3, batch_first=True)
        self.spectral = nn.utils.spectral_norm(nn.Linear(c, 3))
        self.weighted = nn.utils.weight_norm(nn.Conv1d(c, 3, 2))
        self.scale = nn.Parameter(torch.ones(c))
        self.shifts = nn.ParameterList([nn.Parameter(torch.zeros(c)), nn.Parameter(torch.ones(1))])

    def forward(self, input_ids, line, plane, volume, rows):
        words = self.embedding(input_ids)  # (B, T, C)
        states, _ = self.rnn(words)
        return {
            "line": self.line(line),
            "plane": self.group_norm(self.grouped(self.plane(plane))),
            "volume": self.volume(volume),
            "words": words,
            "attended": self.attention(words, states, states)[0],
            "bilinear": self.bilinear(rows, self.square(self.layer_norm(rows))),
            "cells": [self.lstm_cell(rows)[0], self.gru_cell(rows)],
            "normed": (self.spectral(rows), self.weighted(line)),
            "bare": rows * self.scale + self.shifts[0] * self.shifts[1],
        }


def build(config):
    return LayerZoo(**config)


def loss(outputs, inputs):
    """A sum in which every element has a weight of its own, so that no gradient is a constant."""
    total = 0.0
    for value in flat(outputs):
        total = (
            total + (torch.sin(value.flatten()) * torch.linspace(0.5, 1.5, value.numel())).mean()
        )
    return total


def flat(value):
    if isinstance(value, (dict, list, tuple)):
        values = value.values() if isinstance(value, dict) else value
        return [tensor for inner in values for tensor in flat(inner)]
    return [value]
