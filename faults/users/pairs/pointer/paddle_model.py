import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Uniform


class Pointer(nn.Layer):
    def __init__(self, features, width):
        super().__init__()
        self.hidden = nn.Linear(features, width)
        self.score = nn.Linear(width, 1)
        for layer in (self.hidden, self.score):
            edge = layer.weight.shape[0] ** -0.5
            for value in (layer.weight, layer.bias):
                Uniform(-edge, edge)(value)

    def forward(self, x, lengths):
        scores = self.score(paddle.tanh(self.hidden(x))).squeeze(-1)  # (B, T)
        beyond = paddle.arange(x.shape[1]) >= lengths[:, None]
        mask = paddle.where(beyond, paddle.full([], float("-inf"), scores.dtype), paddle.zeros([]))
        return {"logits": scores + mask, "mask": mask}


def build(config):
    return Pointer(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
