from paddle import nn
from paddle.nn import functional as F
from paddle.nn.utils import weight_norm


class Block(nn.Layer):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = nn.Pad1D([2 * dilation, 0])
        self.conv = weight_norm(nn.Conv1D(width, width, 3, dilation=dilation))
        self.act = nn.LeakyReLU(0.1)

    def forward(self, x):
        y = x
        for _ in range(2):
            y = self.act(self.conv(self.pad(y)))
        return x + y


class Net(nn.Layer):
    def __init__(self, width, layers):
        super().__init__()
        self.first = nn.Conv1D(1, width, 1)
        self.blocks = nn.LayerList([Block(width, 2**i) for i in range(layers)])
        self.last = nn.Conv1D(width, 1, 1)

    def forward(self, signal):
        x = self.first(signal)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def loss(outputs, inputs):
    return F.smooth_l1_loss(outputs[:, :, :-1], inputs["signal"][:, :, 1:])
