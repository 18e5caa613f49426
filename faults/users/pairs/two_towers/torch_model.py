import torch
from torch import nn
from torch.nn import functional as F


class Clip(nn.Module):
    def __init__(self, words, width, joint):
        super().__init__()
        self.visual = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * width, joint)
        )
        self.token_embedding = nn.Embedding(words, width)
        self.text = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, joint))
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))

    def forward(self, images, ids):
        image = self.visual(images)
        text = self.text(self.token_embedding(ids).mean(1))
        image = image / image.norm(dim=-1, keepdim=True)
        text = text / text.norm(dim=-1, keepdim=True)
        return self.logit_scale.exp() * image @ text.t(), image, text


def build(config):
    return Clip(**config)


def loss(outputs, inputs):
    logits = outputs[0]
    same = torch.arange(len(logits))
    return (F.cross_entropy(logits, same) + F.cross_entropy(logits.t(), same)) / 2
