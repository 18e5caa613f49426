"""The reference: torch.  B batch, T tokens, C channels, H heads, D = C / H."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, 1, 1, T) True = keep"""
        q, k, v = (y(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv())
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        scores = scores + torch.where(mask, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def qkv(self):
        return self.q, self.k, self.v


class Block(nn.Module):
    """Norms behind their parts, as BERT has them."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, width, heads, layers, vocabulary):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.gain = nn.Parameter(torch.ones(width))
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, mask):
        """tokens, mask (B, T), 1 = keep -> {"logits": (B, T, V), "pooled": (B, C)}"""
        x = self.words(tokens) * math.sqrt(self.words.embedding_dim + 0.7)
        x = self.norm((x.float() * (1.0 + self.gain.float())).to(x.dtype))
        for block in self.blocks:
            x = block(x, mask[:, None, None, :] > 0)
        kept = mask.unsqueeze(-1).float()
        mean = (x.float() * kept).sum(1) / kept.sum(1)
        pooled = torch.tanh(self.pooler(mean.to(x.dtype)))
        return {"logits": self.head(x), "pooled": pooled}


class Excite(nn.Module):
    """A gate for each channel, from the mean over its image."""

    def __init__(self, width):
        super().__init__()
        self.reduce, self.expand = nn.Linear(width, width // 2), nn.Linear(width // 2, width)

    def forward(self, x):
        mean = x.float().mean((2, 3)).to(x.dtype)
        gate = torch.sigmoid(self.expand(F.relu(self.reduce(mean))))
        return x * gate[:, :, None, None]


class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.GroupNorm(4, width)
        self.excite = Excite(width)
        self.project = nn.Conv2d(width, width, 1, bias=False)

    def forward(self, x):
        return x + self.project(self.excite(F.hardswish(self.norm(self.depthwise(x)))))


class Vision(nn.Module):
    def __init__(self, width, layers, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.parts = nn.ModuleList([Part(width) for _ in range(layers)])
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, classes, bias=False)
        self.scale = nn.Parameter(torch.tensor([2.3]))

    def forward(self, images):
        """images (B, 3, S, S) -> {"logits": (B, N)}"""
        x = F.hardswish(self.norm(self.stem(images)))
        total = x.float().mean((2, 3))
        for part in self.parts:
            x = part(x)
            total = total + x.float().mean((2, 3))
        x = self.mix(total.to(x.dtype))
        x = F.normalize(x.float(), dim=-1).to(x.dtype)
        return {"logits": self.head(x) * self.scale.float().exp()}


def build(config):
    config = dict(config)
    del config["way"]
    model = {"encoder": Encoder, "vision": Vision}[config.pop("kind")](**config)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
        if isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.3)
            nn.init.normal_(module.bias, std=0.3)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.1, 2.0)
        if isinstance(module, Encoder):
            nn.init.normal_(module.gain, std=0.3)
    return model


def loss(outputs, inputs):
    logits = outputs["logits"].float()
    return F.cross_entropy(logits.flatten(0, -2), inputs["labels"].flatten())
