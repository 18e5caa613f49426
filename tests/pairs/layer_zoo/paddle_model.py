"""The candidate.  Names are torch's but where the framework gives another one itself."""

import paddle
from paddle import nn


def norm_and_conv(conv, transposed, batch_norm, instance_norm, c):
    return nn.Sequential(
        conv(c, 2 * c, 2),
        batch_norm(2 * c),
        nn.PReLU(2 * c),
        transposed(2 * c, c, 2),
        instance_norm(c, epsilon=1e-9),
    )


class LayerZoo(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        c = channels
        self.line = norm_and_conv(
            nn.Conv1D, nn.Conv1DTranspose, nn.BatchNorm1D, nn.InstanceNorm1D, c
        )
        self.plane = norm_and_conv(
            nn.Conv2D, nn.Conv2DTranspose, nn.BatchNorm2D, nn.InstanceNorm2D, c
        )
        self.volume = norm_and_conv(
            nn.Conv3D, nn.Conv3DTranspose, nn.BatchNorm3D, nn.InstanceNorm3D, c
        )
        self.grouped = nn.Conv2D(c, c, 3, padding=1, groups=2)
        self.group_norm = nn.GroupNorm(2, c)
        self.embedding = nn.Embedding(5, c, padding_idx=0)
        self.layer_norm = nn.LayerNorm(c)
        self.square = nn.Linear(c, c)
        self.bilinear = nn.Bilinear(c, c, 2)
        self.lstm_cell = nn.LSTMCell(c, 3)
        self.gru_cell = nn.GRUCell(c, 3)
        self.rnn = nn.SimpleRNN(c, 3)
        self.attention = nn.MultiHeadAttention(c, 2, kdim=3, vdim=3)
        self.spectral = nn.utils.spectral_norm(nn.Linear(c, 3))
        self.weighted = nn.utils.weight_norm(nn.Conv1D(c, 3, 2))
        self.scale = self.create_parameter([c], default_initializer=nn.initializer.Constant(1.0))
        self.shifts = nn.ParameterList([self.create_parameter([c]), self.create_parameter([1])])

    def forward(self, input_ids, line, plane, volume, rows):
        words = self.embedding(input_ids)  # (B, T, C)
        states, _ = self.rnn(words)
        return {
            "line": self.line(line),
            "plane": self.group_norm(self.grouped(self.plane(plane))),
            "volume": self.volume(volume),
            "words": words,
            "attended": self.attention(words, states, states),
            "bilinear": self.bilinear(rows, self.square(self.layer_norm(rows))),
            "cells": [self.lstm_cell(rows)[0], self.gru_cell(rows)[0]],
            "normed": (self.spectral(rows), self.weighted(line)),
            "bare": rows * self.scale + self.shifts[0] * self.shifts[1],
        }


def build(config):
    return LayerZoo(**config)


def loss(outputs, inputs):
    """A sum in which every element has a weight of its own, so that no gradient is a constant."""
    total = 0.0
    for value in flat(outputs):
        weights = paddle.linspace(0.5, 1.5, value.size)
        total = total + (paddle.sin(value.flatten()) * weights).mean()
    return total


def flat(value):
    if isinstance(value, (dict, list, tuple)):
        values = value.values() if isinstance(value, dict) else value
        return [tensor for inner in values for tensor in flat(inner)]
    return [value]
