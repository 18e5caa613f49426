import paddle
from paddle import nn
from paddle.nn import functional as F


class Siamese(nn.Layer):
    def __init__(self, features, width):
        super().__init__()
        self.fc1 = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)
        self.fc2 = nn.Linear(width, width)

    def forward(self, first, second):
        x = paddle.concat([first, second], axis=0)
        x = self.fc2(F.relu(self.norm(self.fc1(x))))
        a, b = paddle.split(x, 2, axis=0)
        return {"distance": paddle.sqrt(paddle.sum((a - b + 1e-6) ** 2, axis=-1))}


def build(config):
    return Siamese(**config)


def loss(outputs, inputs):
    d = outputs["distance"]
    near = d.square()
    far = F.relu(2.0 - d).square()
    return paddle.where(inputs["same"] == 1, near, far).mean()
