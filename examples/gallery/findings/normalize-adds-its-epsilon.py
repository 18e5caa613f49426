"""The gradient of Paddle's F.normalize beside that of the quotient that it is, in float64."""

import sys

import paddle

EPSILON = 1e-4
paddle.seed(0)
x = paddle.randn([5, 8], dtype="float64")
weight = paddle.randn([5, 8], dtype="float64")


def gradient(normalize):
    """Of a weighted sum of what is normalized."""
    given = x.clone().detach()
    given.stop_gradient = False
    (normalize(given) * weight).sum().backward()
    return given.grad


def quotient(values):
    """Compute F.normalize, written out."""
    return values / paddle.linalg.norm(values, axis=1, keepdim=True).clip(min=EPSILON)


theirs = gradient(lambda values: paddle.nn.functional.normalize(values, axis=1, epsilon=EPSILON))
right = gradient(quotient)
off = float((theirs - right).abs().max() / right.abs().max())
print(f"epsilon {EPSILON}: the gradient is off by {off:.1e} of the largest; float64 has 1e-16")
sys.exit(off > 1e-12)
