import paddle
from paddle import nn


def kept(scores, count):  # True where one of the largest is
    return scores >= scores.topk(count, axis=-1)[0][..., -1:]


class Net(nn.Layer):
    def __init__(self, width, experts, groups, open_groups, chosen, scale=2.5):
        super().__init__()
        self.groups, self.open_groups, self.chosen, self.scale = groups, open_groups, chosen, scale
        self.gate = nn.Linear(width, experts, bias_attr=False)
        self.experts = nn.LayerList([nn.Linear(width, width) for _ in range(experts)])
        self.register_buffer("bias", paddle.linspace(-0.9, -0.3, experts))

    def forward(self, x):
        scores = nn.functional.sigmoid(self.gate(x))
        biased = (scores + self.bias).reshape([0, self.groups, -1])
        free = kept(biased.sort(axis=-1)[..., -2:].sum(-1), self.open_groups).unsqueeze(-1)
        biased = paddle.where(free, biased, paddle.full_like(biased, -float("inf")))
        weights = scores * kept(biased.flatten(1), self.chosen).astype(x.dtype)
        weights = self.scale * nn.functional.normalize(weights, p=1, axis=-1)
        return paddle.einsum("ne,enc->nc", weights, paddle.stack([f(x) for f in self.experts]))
