import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self, features, classes):
        super().__init__()
        self.fc = nn.Linear(features, classes, bias_attr=False)

    def forward(self, x):
        return paddle.argmax(self.fc(x), axis=-1)


def build(config):
    return Net(**config)
