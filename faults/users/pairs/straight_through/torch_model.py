from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, features, size, codes, beta):
        super().__init__()
        self.beta = beta
        self.encode, self.decode = nn.Linear(features, size), nn.Linear(size, features)
        self.codes = nn.Embedding(codes, size)

    def forward(self, x):
        z = self.encode(x)
        apart = (z[..., None, :] - self.codes.weight).pow(2).sum(-1)
        q = self.codes(apart.argmin(-1))
        commit = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        return {"made": self.decode(z + (q - z).detach()), "commit": commit}


def loss(outputs, inputs):
    return F.mse_loss(outputs["made"], inputs["x"]) + outputs["commit"]
