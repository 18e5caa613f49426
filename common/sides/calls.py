"""Names of the functions that a model calls, as calls_in_torch.py and calls_in_paddle.py hand them.

A listener is called with the function's name from the framework on (`torch.Tensor.__add__`), what
stood there, and its arguments; it calls that, and returns what it gives.
"""

INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/", "matmul": "@"},
    **{"floordiv": "//", "mod": "%", "pow": "**", "and": "&", "or": "|", "xor": "^"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
PREFIX = {"neg": "-", "invert": "~"}
# What Paddle's layers call in place of conv2d and conv3d.
CONVOLUTION = "nn.functional.conv._conv_nd"
GETTER = ".__get__"  # how the name ends of an attribute that computes, such as `torch.Tensor.T`


def changed(name: str) -> tuple[int, ...]:
    """Return the places of the arguments that a function may write into, by its name."""
    name = name.rpartition(".")[2]
    bare = name.strip("_")
    if "batch_norm" in name:
        return (1, 2)  # the running statistics
    adds = name.startswith("__") and bare[:1] == "i" and bare[1:] in INFIX
    in_place = name.endswith("_") and not name.startswith("__")
    return (0,) if adds or in_place or name == "__setitem__" else ()
