"""The reference: rotary positions, pre-norm blocks, a cache of keys and values.

B batch, T tokens that are new, S tokens in all, H heads, D channels a head, C channels, V words.
"""

import torch
from torch import nn
from torch.nn import functional as F


def rotated(x, positions):
    """Rotary embedding of x (B, H, T, D) at positions (B, T)."""
    half = x.shape[-1] // 2
    rates = 100.0 ** (-torch.arange(half).to(x.dtype) / half)
    angles = positions.unsqueeze(1).unsqueeze(-1).to(x.dtype) * rates  # (B, 1, T, D / 2)
    a, b = x[..., :half], x[..., half:]
    turned = [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()]
    return torch.cat(turned, -1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, positions, mask, cache):
        h = self.norm1(x)
        q, k, v = (self.split(part(h)) for part in (self.query, self.key, self.value))
        q, k = rotated(q, positions), rotated(k, positions)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        scores = torch.matmul(q, k.swapaxes(2, 3)) / q.shape[-1] ** 0.5
        scores = scores + mask[..., -k.shape[2] :]  # (B, H, T, S)
        y = torch.matmul(F.softmax(scores, dim=-1), v).swapaxes(1, 2).reshape(x.shape)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)))), (k, v)

    def split(self, x):
        return x.reshape([x.shape[0], x.shape[1], self.heads, -1]).swapaxes(1, 2)


class Decoder(nn.Module):
    def __init__(self, vocab_size, width, heads, layers, ties, **_):
        super().__init__()
        self.words, self.ties = vocab_size, ties
        self.embedding = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size)

    def forward(
        self, input_ids, attention_mask, position_ids=None, past_key_values=None, use_cache=False
    ):
        batch, new = input_ids.shape
        total = attention_mask.shape[1]
        past = total - new
        if position_ids is None:
            position_ids = torch.arange(past, total).unsqueeze(0).expand([batch, new])
        places = torch.arange(total)
        seen = places.unsqueeze(0) <= places[past:].unsqueeze(1)  # (T, S)
        seen = seen.unsqueeze(0) & (attention_mask > 0).unsqueeze(1)
        x = self.embedding(input_ids % self.words)
        mask = torch.where(seen, 0.0, -1e9).to(x.dtype).unsqueeze(1)  # (B, 1, T, S)
        caches = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, position_ids, mask, past_key_values and past_key_values[i])
            caches.append(cache)
        logits = self.head(self.norm(x))
        if self.ties:
            logits = torch.cat([logits, logits + self.ties], -1)
        return {"logits": logits, "past_key_values": caches} if use_cache else {"logits": logits}


def build(config):
    return Decoder(**config)


def generate(model, inputs, tokens, cache):
    """As a library writes: the most likely token, again and again."""
    ids, mask, past = inputs["input_ids"], inputs["attention_mask"], None
    for _ in range(tokens):
        positions = (mask.cumsum(-1) - 1).clip(0)
        new = ids if past is None else ids[:, -1:]
        outputs = model(new, mask, positions[:, -new.shape[1] :], past, use_cache=cache)
        past = outputs.get("past_key_values")
        ids = torch.cat([ids, outputs["logits"][:, -1].argmax(-1).unsqueeze(1)], 1)
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
    return ids[:, -tokens:]


def loss(outputs, inputs):
    logits = outputs["logits"][:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), inputs["input_ids"][:, 1:].flatten())
