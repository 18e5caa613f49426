import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, words, width, heads):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        B, T, C = x.shape
        q, k, v = (
            layer(x).view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        causal = torch.tril(torch.ones(T, T, dtype=torch.bool))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        x = self.norm(x + y.transpose(1, 2).reshape(B, T, C))
        return {"logits": self.lm_head(x)}


def loss(outputs, inputs):
    logits = outputs["logits"][:, :-1].flatten(0, 1)
    return F.cross_entropy(logits, inputs["ids"][:, 1:].flatten())
