import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(dtype)


class Rotary(nn.Module):
    def __init__(self, size, base):
        super().__init__()
        inverse = 1.0 / base ** (torch.arange(0, size, 2).float() / size)
        self.register_buffer("inverse", inverse, persistent=False)

    def forward(self, x, positions):  # (1, T)
        angles = positions[:, :, None].float() * self.inverse.float()[None, None]
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.size, self.groups = width // heads, heads // kv_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, self.size * kv_heads, bias=False)
        self.v_proj = nn.Linear(width, self.size * kv_heads, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, rotary, mask):
        split = (*x.shape[:2], -1, self.size)
        q, k, v = (
            layer(x).view(split).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = (t.unsqueeze(1) for t in rotary)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k, v = (t.repeat_interleave(self.groups, dim=1) for t in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.size**-0.5 + mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


class MLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width, heads, kv_heads, inner, eps):
        super().__init__()
        self.input_layernorm = RMSNorm(width, eps)
        self.self_attn = Attention(width, heads, kv_heads)
        self.post_attention_layernorm = RMSNorm(width, eps)
        self.mlp = MLP(width, inner)

    def forward(self, x, rotary, mask):
        x = x + self.self_attn(self.input_layernorm(x), rotary, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, words, width, heads, kv_heads, inner, layers, base, eps):
        super().__init__()
        self.embed_tokens = nn.Embedding(words, width)
        self.rotary_emb = Rotary(width // heads, base)
        self.layers = nn.ModuleList(
            [Layer(width, heads, kv_heads, inner, eps) for _ in range(layers)]
        )
        self.norm = RMSNorm(width, eps)
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, input_ids, attention_mask):
        x = self.embed_tokens(input_ids)
        T = x.shape[1]
        seen = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        seen = seen & attention_mask[:, None, None].bool()
        mask = torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, torch.finfo(x.dtype).min)
        rotary = self.rotary_emb(x, torch.arange(T).unsqueeze(0))
        for layer in self.layers:
            x = layer(x, rotary, mask)
        return {"logits": self.lm_head(self.norm(x))}


def build(config):
    return Llama(**config)


def loss(outputs, inputs):
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    logits = outputs["logits"][:, :-1].float()
    return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
