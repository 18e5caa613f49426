"""The reference of the hard small networks: paddle.  B batch, T tokens, C channels."""

import paddle
from paddle import nn
from paddle.nn import functional as F


class Residual(nn.Layer):
    """A deep residual MLP whose blocks add little (or a lot) to a stream."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in range(layers)])
        self.up = nn.LayerList([nn.Linear(width, 2 * width) for _ in range(layers)])
        self.down = nn.LayerList([nn.Linear(2 * width, width) for _ in range(layers)])
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            x = x + down(F.relu(up(norm(x))))
        return {"logits": self.head(x)}


class Dead(nn.Layer):
    """Most units dead, half of the layers' outputs zero or nearly so, gates closed."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(width, width) for _ in range(layers)])
        self.gates = nn.LayerList([nn.Linear(width, width) for _ in range(layers)])
        self.relu = nn.ReLU()
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for i, (layer, gate) in enumerate(zip(self.layers, self.gates, strict=True)):
            seen = self.relu(layer(x) - (1e3 if i % 2 else 1.0))  # every other one: all zero
            x = x + paddle.sigmoid(gate(x) - 30.0) * x + 1e-8 * seen
        return {"logits": self.head(x)}


class Images(nn.Layer):
    """Convolutions with BatchNorm behind a bias, which their gradient therefore cannot reach."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.stem = nn.Conv2D(3, width, 3, padding=1)
        self.convs = nn.LayerList([nn.Conv2D(width, width, 3, padding=1) for _ in range(layers)])
        self.norms = nn.LayerList([nn.BatchNorm2D(width) for _ in range(layers)])
        self.pool = nn.AvgPool2D(2)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, num_labels)

    def forward(self, images):
        x = self.stem(images)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.relu(norm(conv(x)))
        x = self.dropout(self.pool(x).mean(axis=(2, 3)))
        return {"logits": self.head(x)}


class Pooling(nn.Layer):
    """Additive pooling: a score's bias, and a key's, are gauges that no output depends on."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.keys = nn.LayerList([nn.Linear(width, width) for _ in range(layers)])
        self.queries = nn.LayerList([nn.Linear(width, width) for _ in range(layers)])
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, num_labels)
        self.unused = nn.Linear(width, width)

    def forward(self, tokens):
        x = tokens
        for key, query in zip(self.keys, self.queries, strict=True):
            weights = F.softmax(paddle.matmul(query(x), key(x).swapaxes(-1, -2)), axis=-1)
            x = x + paddle.matmul(weights, x)
        weights = F.softmax(self.score(paddle.tanh(x)), axis=1)  # (B, T, 1)
        return {"logits": self.head((weights * x).sum(axis=1))}


class Outputs(nn.Layer):
    """Modules that return tuples and dicts, one that is called twice, and a shared weight."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.parts = nn.LayerList([Parts(width) for _ in range(layers)])
        self.twice = nn.Linear(width, width)
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for part in self.parts:
            x, more = part(x)
            x = self.twice(paddle.tanh(self.twice(x))) + more["low"] * more["rest"][0]
        return {"logits": self.head(x), "nested": (x, [more["rest"][1]])}


class Parts(nn.Layer):
    """One tensor, and a dict with a tensor and a tuple in it."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        y = self.mix(x)
        return y, {"low": paddle.tanh(y), "rest": (x - y, x * 0.5)}


class Precise(nn.Layer):
    """Differences of large numbers, of which little is left, and a badly conditioned product."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(width, width) for _ in range(layers)])
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for layer in self.layers:
            large = layer(x) * 1e6
            left = (large + x) - large  # float32 keeps a digit or none of it
            x = x + paddle.tanh(left)
        return {"logits": self.head(x)}


KINDS = {
    "residual": Residual,
    "dead": Dead,
    "images": Images,
    "pooling": Pooling,
    "outputs": Outputs,
    "precise": Precise,
}


def build(config):
    sizes = (config["width"], config["layers"], config.get("num_labels", 5))
    model = KINDS[config["kind"]](*sizes)
    model.loss_scale = config.get("loss_scale", 1.0)
    # its state becomes both sides'
    return model


def loss(outputs, inputs):
    logits = outputs["logits"]
    picked = F.one_hot(inputs["labels"], logits.shape[-1]).astype(logits.dtype)
    losses = paddle.logsumexp(logits, axis=-1) - (logits * picked).sum(axis=-1)
    return (losses * inputs["weight"]).sum()
