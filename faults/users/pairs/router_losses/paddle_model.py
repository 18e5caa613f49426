import paddle
from paddle import nn


def balance(gates, keep, chosen=2):
    shares = nn.functional.softmax(paddle.stack(gates))  # (L, B, T, E)
    largest = shares.topk(chosen, axis=-1)[0][..., -1:]
    each = keep.astype(shares.dtype) / keep.sum().astype(shares.dtype)
    tokens = paddle.einsum("lbte,bt->le", (shares >= largest).astype(shares.dtype), each)
    router = paddle.einsum("lbte,bt->le", shares, each)
    return shares.shape[-1] * (tokens * router).sum(-1).mean()


class Net(nn.Layer):
    def __init__(self, words, width, experts, chosen, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.gates = nn.LayerList([nn.Linear(width, experts) for _ in range(layers)])
        self.mixes = nn.LayerList([nn.Linear(experts, width) for _ in range(layers)])

    def forward(self, ids, keep):
        x, gates = self.embed(ids), []
        for gate, mix in zip(self.gates, self.mixes, strict=True):
            gates.append(gate(x))
            x = x + mix(nn.functional.softmax(gates[-1]))
        return {"x": x, "aux": balance(gates, keep)}


def loss(outputs, inputs):
    return (outputs["x"] - inputs["wanted"]).square().mean() + 0.1 * outputs["aux"]
