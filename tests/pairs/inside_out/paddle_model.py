"""The port, with the fault that its configuration names."""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F

FAULT = [""]


class Spectrum(nn.Layer):
    def forward(self, x):
        found = paddle.fft.rfft(x, axis=-1)  # (B, T, 5) complex
        return found.conj() if FAULT[0] == "conjugate" else found


class Centred(nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", paddle.zeros([8]))

    def forward(self, x):
        if self.training and FAULT[0] != "forgotten":
            rate = 0.01 if FAULT[0] == "average" else 0.1
            self.mean.set_value((1.0 - rate) * self.mean + rate * x.detach().mean([0, 1]))
        return x - self.mean


class Attend(nn.Layer):
    def forward(self, x, keep):
        scores = x @ x.transpose([0, 2, 1])  # (B, T, T)
        left_out = paddle.full_like(scores, -math.inf)
        weights = F.softmax(paddle.where(keep.unsqueeze(1) == 0, left_out, scores), axis=-1)
        if FAULT[0] == "nan to zero":
            weights = paddle.where(paddle.isnan(weights), paddle.zeros_like(weights), weights)
        return weights


class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.filter = self.create_parameter([5, 2])
        self.spectrum, self.centred, self.attend = Spectrum(), Centred(), Attend()
        rates = 10.0 ** -(paddle.arange(4).astype(paddle.get_default_dtype()) / 4)
        angles = paddle.arange(6).astype(rates.dtype).unsqueeze(1) * rates
        table = paddle.concat([angles.sin(), angles.cos()], -1)
        if FAULT[0] == "table":
            table = paddle.stack([angles.sin(), angles.cos()], -1).flatten(-2)
        self.register_buffer("table", table)

    def forward(self, x, keep):
        inner = paddle.tanh(self.inner(x))
        x = self.centred(inner) + self.table
        x = paddle.fft.irfft(self.spectrum(x) * paddle.as_complex(self.filter), n=8, axis=-1)
        return {"y": self.attend(x, keep) @ x, "inner": inner}


def build(config):
    FAULT[0] = config["fault"]
    return Model()


def loss(outputs, inputs):
    y, x = outputs["y"], inputs["x"]
    (slope,) = paddle.grad(outputs["inner"].sum(), x, create_graph=True)
    wanted = 1.001 if FAULT[0] == "penalty" else 1.0
    penalty = (slope.square().sum(-1) - wanted).square().mean()
    return F.binary_cross_entropy_with_logits(y, inputs["target"]) + penalty
