import paddle
from paddle import nn
from paddle.nn import functional as F


class Expert(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Mixture(nn.Layer):
    def __init__(self, width, experts, chosen, classes):
        super().__init__()
        self.count, self.chosen = experts, chosen
        self.gate = nn.Linear(width, experts, bias_attr=False)
        self.experts = nn.LayerList([Expert(width) for _ in range(experts)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        weights = F.softmax(self.gate(x), axis=-1)  # (B, T, E)
        _, index = paddle.topk(weights, self.chosen, axis=-1)
        kept = F.one_hot(index, self.count).sum(axis=-2).astype(weights.dtype) * weights
        kept = kept / kept.sum(axis=-1, keepdim=True)
        everything = paddle.stack([expert(x) for expert in self.experts], axis=-2)
        y = (everything * kept.unsqueeze(-1)).sum(axis=-2)
        load = weights.mean(axis=[0, 1])
        return {"logits": self.head(x + y), "load": load.square().sum()}


def build(config):
    return Mixture(**config)


def loss(outputs, inputs):
    main = F.cross_entropy(outputs["logits"], inputs["labels"])
    return main + 0.01 * outputs["load"]
