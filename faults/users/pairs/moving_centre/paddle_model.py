import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, features, width, out, momentum):
        super().__init__()
        self.momentum = momentum
        self.student = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, out))
        self.register_buffer("centre", paddle.zeros([1, out]))

    @paddle.no_grad()
    def teach(self, x):
        logits = self.student(x)
        target = F.softmax((logits - self.centre) / 0.04, axis=-1)
        if self.training:
            step = (1.0 - self.momentum) * (logits.mean(axis=0, keepdim=True) - self.centre)
            self.centre.set_value(self.centre + step)
        return target

    def forward(self, one, two):
        target = self.teach(two)  # before the student
        return {"target": target, "student": F.log_softmax(self.student(one) / 0.1, axis=-1)}


def loss(outputs, inputs):
    return -(outputs["target"] * outputs["student"]).sum(axis=-1).mean()
