import paddle
from paddle import nn


class Critic(nn.Layer):
    def __init__(self, features, width):
        super().__init__()
        self.fc1 = nn.Linear(features, width)
        self.fc2 = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def score(self, x):
        x = paddle.tanh(self.fc1(x))
        x = paddle.tanh(self.fc2(x))
        return self.out(x).squeeze(-1)

    def penalty(self, x):
        x.stop_gradient = False
        slope = paddle.grad(self.score(x).sum(), x, create_graph=True)[0]
        return paddle.square(slope.square().sum(axis=1).sqrt() - 1.0).mean()

    def forward(self, real, made, mix):
        with paddle.enable_grad():
            penalty = self.penalty((made + mix * (real - made)).detach())
        return {"penalty": penalty, "real": self.score(real), "made": self.score(made)}


def build(config):
    return Critic(**config)


def loss(outputs, inputs):
    return (outputs["made"] - outputs["real"]).mean() + 10.0 * outputs["penalty"]
