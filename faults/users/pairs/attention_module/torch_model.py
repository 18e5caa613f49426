from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, width, heads, classes):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x, memory):
        y, _ = self.attend(x, memory, memory)
        return self.head((x + y).mean(1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
