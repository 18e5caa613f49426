import paddle
from paddle import nn
from paddle.nn import functional as F


class Rotary(nn.Layer):
    def __init__(self, width, kept, base):
        super().__init__()
        exponents = paddle.arange(0, width, 2).astype(paddle.get_default_dtype()) / width
        self.register_buffer("inv_freq", 1.0 / (base**exponents), persistable=kept)

    def forward(self, x):
        places = paddle.arange(x.shape[1]).unsqueeze(1).astype(x.dtype)
        angles = places * self.inv_freq  # (T, C/2)
        cos, sin = angles.cos(), angles.sin()
        left, right = x.chunk(2, axis=-1)
        return paddle.concat([left * cos - right * sin, left * sin + right * cos], axis=-1)


class Layer(nn.Layer):
    def __init__(self, width, rotary):
        super().__init__()
        self.rotary = rotary
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return paddle.tanh(self.mix(self.rotary(x)))


class Net(nn.Layer):
    def __init__(self, words, width, kept, base):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        rotary = Rotary(width, kept, base)
        self.layers = nn.LayerList([Layer(width, rotary) for _ in range(2)])
        self.register_buffer("drawn", paddle.randn([width]))
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.embed(ids) * self.drawn  # (B, T, C)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def build(config):
    return Net(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["next"])
