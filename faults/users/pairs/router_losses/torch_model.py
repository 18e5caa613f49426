import torch
from torch import nn


def balance(logits, keep, chosen):
    shares = logits.flatten(0, 1)[keep.flatten()].softmax(-1)
    hot = torch.zeros_like(shares).scatter(1, shares.topk(chosen, -1)[1], 1.0)
    return shares.shape[-1] * (hot.mean(0) * shares.mean(0)).sum()


class Net(nn.Module):
    def __init__(self, words, width, experts, chosen, layers):
        super().__init__()
        self.chosen = chosen
        self.embed = nn.Embedding(words, width)
        self.gates = nn.ModuleList([nn.Linear(width, experts) for _ in range(layers)])
        self.mixes = nn.ModuleList([nn.Linear(experts, width) for _ in range(layers)])

    def forward(self, ids, keep):
        x, aux = self.embed(ids), []
        for gate, mix in zip(self.gates, self.mixes, strict=True):
            logits = gate(x)
            aux.append(balance(logits, keep, self.chosen))
            x = x + mix(logits.softmax(-1))
        return {"x": x, "aux": torch.stack(aux).mean()}


def loss(outputs, inputs):
    return nn.functional.mse_loss(outputs["x"], inputs["wanted"]) + 0.1 * outputs["aux"]
