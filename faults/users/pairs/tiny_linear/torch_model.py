from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        return self.fc(x)


def build(config):
    return Model()


def loss(outputs, inputs):
    return outputs.sum()
