import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        y = F.softmax(scores, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.proj = nn.Linear(4 * width, width)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, words, places, width, heads, layers):
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.wpe = nn.Embedding(places, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids, keep):
        T = ids.shape[1]
        positions = torch.arange(T)[None]  # (1, T)
        later = torch.ones(T, T, dtype=torch.bool).triu(1)
        mask = later[None, None] | (keep[:, None, None] == 0)
        x = self.wte(ids) + self.wpe(positions)
        for block in self.h:
            x = block(x, mask)
        return {"logits": F.linear(self.ln_f(x), self.wte.weight)}


def build(config):
    return GPT(**config)


def loss(outputs, inputs):
    labels = inputs["ids"].masked_fill(inputs["keep"] == 0, -100)[:, 1:]
    return F.cross_entropy(outputs["logits"][:, :-1].transpose(1, 2), labels)
