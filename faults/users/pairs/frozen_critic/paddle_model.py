import paddle
from paddle import nn
from paddle.nn import functional as F


class Norm(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x, self._normalized_shape) * self.weight + self.bias


class Critic(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.norm = nn.Linear(2 * width, width), Norm(width)
        self.value = nn.Linear(width, 1)

    def forward(self, state, chosen):
        hidden = self.norm(self.hidden(paddle.concat([state, chosen], axis=-1)))
        return self.value(paddle.tanh(hidden)).squeeze(-1)


class Net(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.actor, self.critic = nn.Linear(width, width), Critic(width)

    def forward(self, state, chosen, target):
        off = (self.critic(state, chosen) - target).square().mean()
        for weight in self.critic.parameters():
            weight.stop_gradient = True
        value = self.critic(state, paddle.tanh(self.actor(state))).mean()
        for weight in self.critic.parameters():
            weight.stop_gradient = False
        return {"off": off, "value": value}


def loss(outputs, inputs):
    return outputs["off"] - outputs["value"]
