import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, words, width, end, alpha):
        super().__init__()
        self.end, self.alpha = end, alpha
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.rnn = nn.GRU(width, width, batch_first=True)

    def forward(self, ids, prompt):
        logits = self.head(self.rnn(self.embed(ids[:, :-1]))[0])
        each = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        scores = []
        for row, values, start in zip(ids.tolist(), each, prompt.tolist(), strict=True):
            stop = row.index(self.end, start)
            scores.append(values[start - 1 : stop].sum() / (stop + 1 - start) ** self.alpha)
        scores = torch.stack(scores)
        return {"scores": scores, "best": scores.argmax()}
