from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class Block(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.cut = 2 * dilation
        self.conv = weight_norm(nn.Conv1d(width, width, 3, padding=self.cut, dilation=dilation))

    def once(self, x):
        return F.leaky_relu(self.conv(x)[..., : -self.cut], 0.1)

    def forward(self, x):
        return x + self.once(self.once(x))


class Net(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.blocks = nn.Sequential(*[Block(width, 2**i) for i in range(layers)])
        self.last = nn.Conv1d(width, 1, 1)

    def forward(self, signal):
        return self.last(self.blocks(self.first(signal)))


def loss(outputs, inputs):
    return F.smooth_l1_loss(outputs[..., :-1], inputs["signal"][..., 1:])
