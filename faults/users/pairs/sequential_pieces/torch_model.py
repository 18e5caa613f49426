from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Dropout(0.2),
            nn.Linear(width, width),
            nn.Softplus(),
            nn.Linear(width, classes),
        )

    def forward(self, features):
        return self.net(features)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
