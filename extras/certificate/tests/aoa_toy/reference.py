"""A small decoder, as a library of torch's would publish it."""

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    """Attention and a gated network, each behind its norm."""

    def __init__(self, config):
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.input_layernorm = nn.LayerNorm(size)
        self.post_attention_layernorm = nn.LayerNorm(size)
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, nn.Linear(size, size, bias=config.qkv_bias))
        self.o_proj = nn.Linear(size, size, bias=False)
        self.gate_proj = nn.Linear(size, 2 * size)
        self.up_proj = nn.Linear(size, 2 * size)
        self.down_proj = nn.Linear(2 * size, size, bias=False)

    def forward(self, x):
        h = self.input_layernorm(x)
        parts = [p(h) for p in (self.q_proj, self.k_proj, self.v_proj)]  # (B, T, C)
        q, k, v = [p.reshape(*p.shape[:2], self.heads, -1).transpose(1, 2) for p in parts]
        scores = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, -1)  # (B, H, T, T)
        x = x + self.o_proj((scores @ v).transpose(1, 2).reshape(x.shape))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Toy(nn.Module):
    """ids (B, T) to logits (B, T, V)."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))
