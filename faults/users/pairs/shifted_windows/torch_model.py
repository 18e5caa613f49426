import torch
from torch import nn
from torch.nn import functional as F


class Windows(nn.Module):
    def __init__(self, width, heads, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        place = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None, :] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.window
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), dims=(1, 2))
        y = y.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)
        q, k, v = self.qkv(y).view(-1, w * w, 3, self.heads, C // self.heads).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) * (C // self.heads) ** -0.5
        scores = scores + self.table[self.index].permute(2, 0, 1)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, C)
        y = self.proj(y).view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return x + torch.roll(y, (self.shift, self.shift), dims=(1, 2))


class Net(nn.Module):
    def __init__(self, width, heads, window, classes):
        super().__init__()
        self.a = Windows(width, heads, window, 0)
        self.b = Windows(width, heads, window, window // 2)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.b(self.a(x)).mean((1, 2)))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
