import paddle
from paddle import nn


def spreads(centre=0.1, size=0.2):
    return [centre, centre, size, size]


class Boxes(nn.Linear):
    def forward(self, x, anchors):
        deltas = super().forward(x) * paddle.to_tensor(spreads())
        corners = anchors.reshape([-1, 2, 2])
        sides = corners[:, 1] - corners[:, 0]
        centres = corners.mean(1) + deltas[:, :2] * sides
        halves = 0.5 * sides * paddle.exp(deltas[:, 2:].clip(max=0.05))
        return paddle.concat([centres - halves, centres + halves], axis=-1)


def build(config):
    return Boxes(config["features"], 4)


def loss(outputs, inputs):
    a, b = (t.reshape([-1, 2, 2]) for t in (outputs, inputs["boxes"]))
    low, high = paddle.minimum(a, b), paddle.maximum(a, b)
    both = (low[:, 1] - high[:, 0]).clip(min=0.0).prod(-1)
    union = sum((t[:, 1] - t[:, 0]).prod(-1) for t in (a, b)) - both
    hull = (high[:, 1] - low[:, 0]).prod(-1)
    return 2.0 - (both / union + union / hull).mean()
