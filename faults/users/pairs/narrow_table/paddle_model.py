import paddle
from paddle import nn


def waves(longest, width):
    steps = paddle.arange(0, width, 2).astype(paddle.get_default_dtype()) / width
    angles = paddle.arange(longest).astype(steps.dtype).unsqueeze(1) / 10000.0**steps
    return paddle.concat([angles.sin(), angles.cos()], axis=1)


class Net(nn.Layer):
    def __init__(self, words, width, longest):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.places = waves(longest, width)
        self.norm = nn.LayerNorm(width)
        self.gain = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.norm(self.embed(ids) + self.places[: ids.shape[1]])
        x = x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.out(x * self.gain)


def build(config):
    return Net(**config)
