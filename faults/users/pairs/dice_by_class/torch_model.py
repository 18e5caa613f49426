import torch
from torch import nn


def build(config):
    return nn.Sequential(nn.Conv2d(3, config["classes"], 3, padding=1))


def loss(outputs, inputs):
    known, parts = inputs["labels"] != 255, []
    p, labels = outputs.softmax(1).movedim(1, -1)[known], inputs["labels"][known]
    for i in range(p.shape[1]):
        hot = (labels == i).to(p.dtype)
        parts.append(1 - (2 * (p[:, i] * hot).sum() + 1) / (p[:, i].sum() + hot.sum() + 1))
    entropy = nn.functional.cross_entropy(outputs, inputs["labels"], ignore_index=255)
    return torch.stack(parts).mean() + entropy
