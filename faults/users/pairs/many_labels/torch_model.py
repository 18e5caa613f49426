import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, features, width, labels):
        super().__init__()
        self.hidden = nn.Linear(features, width)
        self.act = nn.PReLU()
        self.out = nn.Linear(width, labels)

    def forward(self, features):
        return {"logits": self.out(self.act(self.hidden(features)))}


def loss(outputs, inputs):
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0])
    return F.binary_cross_entropy_with_logits(
        outputs["logits"], inputs["targets"], pos_weight=weight.to(outputs["logits"].dtype)
    )
