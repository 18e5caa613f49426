import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, width, heads, experts):
        super().__init__()
        self.inner = nn.Linear(width, width)  # square: its shape does not say which way it lies
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.2, batch_first=True)
        self.gate = nn.Linear(width // heads, experts)

    def forward(self, x):
        x = self.inner(x)
        y = self.attention(x, x, x, need_weights=False)[0]
        q = y.unflatten(-1, (self.attention.num_heads, -1)).transpose(1, 2)  # (B, H, T, D)
        k = q[:, :1]  # that all heads share
        rate = 0.3 if self.training else 0.0
        z = F.scaled_dot_product_attention(q, k, k, dropout_p=rate, scale=0.7, enable_gqa=True)
        scores = self.gate(z)
        best = torch.argmax(scores, dim=-1, keepdim=True)
        return {"z": z, "best": best, "top": scores.topk(2, dim=-1).values}


def build(config):
    return Net(**config)


def loss(outputs, inputs):
    return outputs["z"].square().mean() + outputs["top"].sum()
