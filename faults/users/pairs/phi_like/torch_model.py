import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        lifted = x.float()
        lifted = lifted * torch.rsqrt((lifted**2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * lifted.type_as(x)


def rotary(x, turned, base=10000.0):
    """x (B, H, T, D): the first `turned` of D are rotated, in halves."""
    T = x.shape[2]
    inverse = base ** (-torch.arange(0, turned, 2, dtype=torch.float32) / turned)
    angles = torch.outer(torch.arange(T, dtype=torch.float32), inverse)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b, rest = x[..., : turned // 2], x[..., turned // 2 : turned], x[..., turned:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


class Attention(nn.Module):
    def __init__(self, width, heads, turned):
        super().__init__()
        self.heads, self.turned = heads, turned
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv_proj(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotary(q, self.turned), rotary(k, self.turned)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self, width, heads, inner, turned):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attn = Attention(width, heads, turned)
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(up * F.silu(gate))


class Phi(nn.Module):
    def __init__(self, words, width, heads, inner, layers, turned):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Layer(width, heads, inner, turned) for _ in range(layers)])
        self.norm = RMSNorm(width)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.T


def build(config):
    return Phi(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs[:, :-1].transpose(1, 2), inputs["input_ids"][:, 1:])
