import torch
from torch import nn
from torch.nn import functional as F


class Codebook(nn.Module):
    def __init__(self, size, codes, decay):
        super().__init__()
        self.decay = decay
        codebook = torch.randn(codes, size)
        self.register_buffer("codebook", codebook)
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", codebook.clone())

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        distance = torch.cdist(flat, self.codebook, compute_mode="donot_use_mm_for_euclid_dist")
        index = distance.argmin(dim=-1)
        hot = F.one_hot(index, len(self.codebook)).to(x.dtype)
        q = (hot @ self.codebook).view_as(x)
        if self.training:
            with torch.no_grad():
                self.counts.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                self.sums.mul_(self.decay).add_(hot.t() @ flat, alpha=1 - self.decay)
                n = self.counts.sum()
                smooth = (self.counts + 1e-5) / (n + len(self.counts) * 1e-5) * n
                self.codebook.copy_(self.sums / smooth[:, None])
        return x + (q - x).detach(), F.mse_loss(x, q.detach())


class Net(nn.Module):
    def __init__(self, features, size, codes, decay):
        super().__init__()
        self.encode = nn.Linear(features, size)
        self.quantize = Codebook(size, codes, decay)
        self.decode = nn.Linear(size, features)

    def forward(self, x):
        q, commitment = self.quantize(self.encode(x))
        return {"x": self.decode(q), "commitment": commitment}


def loss(outputs, inputs):
    return F.mse_loss(outputs["x"], inputs["x"]) + 0.25 * outputs["commitment"]
