import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, width, window, shift):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.window, self.shift
        y = F.pad(self.norm(x), (0, 0, 0, -W % w, 0, -H % w))
        P, Q = y.shape[1:3]
        region = torch.zeros(P, Q, dtype=torch.long)
        region[-w:], region[-s:] = 3, 6
        region[:, -w:-s] += 1
        region[:, -s:] += 2
        region = region.view(P // w, w, Q // w, w).transpose(1, 2).reshape(-1, w * w)
        y = torch.roll(y, (-s, -s), (1, 2)).view(B, P // w, w, Q // w, w, C)
        q, k, v = self.qkv(y.transpose(2, 3).reshape(B, -1, w * w, C)).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, region[:, :, None] == region[:, None])
        y = y.view(B, P // w, Q // w, w, w, C).transpose(2, 3).reshape(B, P, Q, C)
        return x + torch.roll(y, (s, s), (1, 2))[:, :H, :W]
