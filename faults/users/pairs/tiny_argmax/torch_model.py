from torch import nn


class Net(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.fc = nn.Linear(features, classes, bias=False)

    def forward(self, x):
        return self.fc(x).argmax(dim=-1)
