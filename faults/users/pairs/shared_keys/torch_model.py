import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.times, self.size = heads // kv_heads, width // heads
        self.q, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * kv_heads * self.size)

    def forward(self, x, past):
        q = self.q(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
        kv = self.kv(torch.cat((past, x), 1)).unflatten(-1, (2, -1, self.size))
        k, v = kv.permute(2, 0, 3, 1, 4).repeat_interleave(self.times, 2)
        T, S = q.shape[2], k.shape[2]
        seen = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(y.transpose(1, 2).flatten(2))
