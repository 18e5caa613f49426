from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.frozen = nn.BatchNorm2d(width)
        self.deep = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, classes)

    def train(self, mode=True):
        super().train(mode)
        self.frozen.eval()  # whatever else learns
        return self

    def forward(self, x):
        x = F.silu(self.frozen(self.conv(x)))
        x = F.silu(self.norm(self.deep(x)))
        return self.head(x.mean(dim=(2, 3)))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
