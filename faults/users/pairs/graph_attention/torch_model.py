import torch
from torch import nn
from torch.nn import functional as F


class GATConv(nn.Module):
    def __init__(self, c_in, c_out, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(c_in, heads * c_out, bias=False)
        self.att_source = nn.Parameter(0.3 * torch.randn(heads, c_out))
        self.att_target = nn.Parameter(0.3 * torch.randn(heads, c_out))

    def forward(self, x, edges):
        source, target = edges
        x = self.lin(x).view(len(x), self.heads, -1)
        score = (x * self.att_source).sum(-1)[source] + (x * self.att_target).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        largest = torch.full((len(x), self.heads), -torch.inf, dtype=x.dtype)
        index = target[:, None].expand_as(score)
        largest = largest.scatter_reduce(0, index, score.detach(), "amax")
        score = (score - largest[target]).exp()
        total = torch.zeros(len(x), self.heads, dtype=x.dtype).index_add(0, target, score)
        share = score / (total[target] + 1e-16)
        return torch.zeros_like(x).index_add(0, target, share[..., None] * x[source]).flatten(1)


class GAT(nn.Module):
    def __init__(self, features, width, heads, classes):
        super().__init__()
        self.conv1 = GATConv(features, width, heads)
        self.conv2 = GATConv(heads * width, classes, 1)

    def forward(self, x, edges):
        return {"logits": self.conv2(F.elu(self.conv1(x, edges)), edges)}


def build(config):
    return GAT(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
