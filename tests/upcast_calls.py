"""What one framework's calls make, plain and upcast; for tests/test_upcast.py.

    python tests/upcast_calls.py torch|paddle

Prints JSON: "made", expression -> the dtypes that it makes [in a float32 run, upcast, in a float32
run again]; "counts" as a sidecar has them; "tables", the dtypes of one that outlives a model.
"""

import functools
import importlib
import json
import sys
import typing

import numpy as np

EXPRESSIONS = {
    "torch": """
x.float()|x.half()|x.bfloat16()|i.float()|b.half()|x.cfloat()|x.to(torch.float32)
x.to(dtype=torch.float16)|i.to("cpu", torch.float32)|x.to(torch.complex64)|x.type(torch.float32)
x.type("torch.FloatTensor")|x.type(torch.FloatTensor)|torch.FloatTensor([1.0, 2.0])
F.softmax(x, -1, dtype=torch.float32)|x.log_softmax(-1, torch.float32)
x.sum(-1, dtype=torch.float32)|torch.mean(x, dtype=torch.float32)|b.cumsum(0, dtype=torch.float16)
torch.prod(x, dtype=torch.float32)|torch.linalg.vector_norm(x, dtype=torch.float32)
torch.norm(x, dtype=torch.float32)|torch.zeros(2, dtype=torch.float32)
torch.full((2,), 0.1, dtype=torch.bfloat16)|torch.arange(0, 4, 2, dtype=torch.float32)
torch.linspace(0, 1, 3, dtype=torch.float32)|torch.eye(2, dtype=torch.float32)
torch.rand(2, dtype=torch.float32)|torch.empty(2, dtype=torch.float16)
torch.zeros_like(i, dtype=torch.float32)|torch.full_like(x, 0.1, dtype=torch.float32)
x.new_ones(2, dtype=torch.float32)|x.new_tensor([1.0], dtype=torch.float32)
torch.tensor([0.1], dtype=torch.float32)|torch.tensor(np.float32(0.1))
torch.from_numpy(np.ones(2, "float32"))|torch.as_tensor(np.ones(2, "float16"))
torch.asarray([0.1], dtype=torch.float32)|torch.hann_window(4, dtype=torch.float32)
torch.fft.fftfreq(4, dtype=torch.float32)|torch.polar(x, x)|torch.view_as_complex(x.float())
nn.Linear(2, 2, dtype=torch.float32).weight|nn.Linear(2, 2).float().weight
nn.Linear(2, 2).to(torch.bfloat16).weight|nn.Embedding(2, 2).half().weight
scripted(x)|scripted_twice(x)|Own.apply(x)|autocast(x)
annotated(x)|default(torch.float32)
""",
    "paddle": """
x.float()|x.half()|x.bfloat16()|i.astype("float32")|b.cast("float16")|x.to("float32")
x.to(dtype=paddle.float32)|x.astype(np.float32)|cast(x, "bfloat16")|x.astype("complex64")
F.softmax(x, axis=-1, dtype="float32")|F.log_softmax(x, dtype=paddle.float32)
x.sum(dtype="float32")|paddle.sum(b, dtype="float32")|paddle.cumsum(x, dtype="float32")
paddle.prod(x, dtype="float32")|zeros([2], "float32")|paddle.ones([2], dtype="float16")
paddle.full([2], 0.1, "bfloat16")|paddle.arange(0, 4, 2, dtype="float32")
paddle.linspace(0, 1, 3, dtype="float32")|paddle.eye(2, dtype="float32")
paddle.rand([2], dtype="float32")|paddle.randn([2], dtype="float32")|paddle.empty([2], "float32")
paddle.zeros_like(i, dtype="float32")|paddle.full_like(i, 0.1, dtype="float32")
x.new_zeros([2], dtype="float32")|paddle.to_tensor([0.1], dtype="float32")
paddle.to_tensor(0.1, paddle.float32)|paddle.to_tensor(np.ones(2, "float32"))
paddle.assign(np.ones(2, "float32"))|paddle.complex(x.float(), x.float())
F.sequence_mask(i, dtype="float32")|nn.Linear(2, 2).float().weight|nn.Linear(2, 2).half().weight
nn.Linear(2, 2).to(dtype="float32").weight|nn.Linear(2, 2).astype("float16").weight
nn.Layer(dtype="float32").create_parameter([2])|nn.Layer().create_parameter([2], dtype="float32")
i / 2|2 / i|i * 0.5|0.5 - i|i**0.5|2.5**i|i / i|b * 0.5|paddle.sqrt(i)|i.exp()|paddle.divide(i, i)
F.one_hot(i, 4)|Own.apply(x)|autocast(x)|default("float32")
""",
}


def names_of_torch():
    """Return a maker of tensors, and the names the expressions use beside torch itself."""
    import torch
    from torch import nn  # noqa: F401
    from torch.nn import functional as F  # noqa: F401

    @torch.jit.script
    def scripted(x: torch.Tensor):
        return x.float() * torch.ones([2], dtype=torch.float32)

    @torch.jit.script
    def scripted_twice(x: torch.Tensor):
        return scripted(x) + torch.zeros([2], dtype=torch.float32)

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.float().exp()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    def autocast(x):
        with torch.autocast("cpu", enabled=False):
            return x.float() + 1.0

    def default(dtype):
        torch.set_default_dtype(dtype)
        return torch.ones(1)

    def annotated(value: torch.FloatTensor | None, other: "int | torch.HalfTensor" = 0):
        assert isinstance(value, torch.FloatTensor) and not isinstance(value, torch.LongTensor)
        assert typing.get_type_hints(annotated, locals() | globals() | {"torch": torch})
        return value.float()

    def make():
        return {"x": torch.rand(2, 2), "i": torch.arange(1, 3), "b": torch.arange(2) > 0}

    return make, locals() | globals()


def names_of_paddle():
    """Return a maker of tensors, and the names the expressions use beside Paddle itself."""
    import paddle
    from paddle import cast, nn, zeros  # noqa: F401
    from paddle.nn import functional as F  # noqa: F401

    class Own(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x.astype("float32").exp()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    def autocast(x):
        with paddle.amp.auto_cast(False):
            return x.astype("float32") + 1.0

    def default(dtype):
        paddle.set_default_dtype(dtype)
        return paddle.ones([1])

    def make():
        return {"x": paddle.rand([2, 2]), "i": paddle.arange(1, 3), "b": paddle.arange(2) > 0}

    return make, locals() | globals()


def main(name):
    """Make everything three times."""
    # As a model's file that was imported before: Paddle's functions are found all the same.
    before = names_of_paddle() if name == "paddle" else None
    from twincheck.common.sides import upcast

    side = importlib.import_module(f"twincheck.common.sides.backend_{name}").side
    upcast.patch(side)
    make, names = before or names_of_torch()
    expressions = EXPRESSIONS[name].strip().replace("\n", "|").split("|")
    made = {text: [] for text in expressions}
    counts = {}
    for dtype in ("float32", "float64", "float32"):
        side.set_up(dtype, "cpu", 0)
        with upcast.upcasting(dtype == "float64") as counted:
            for text in expressions:
                value = eval(text, names | make() | {"np": np})
                made[text].append(str(value.dtype).rpartition(".")[2])
        counts |= counted
    print(json.dumps({"made": made, "counts": counts, "tables": tables(upcast, side, make)}))


def tables(upcast, side, make):
    """The dtypes of a cached table in a float32, a float64 and a float32 run."""

    @functools.lru_cache
    def table():
        return make()["x"].float()

    found = []
    for dtype in ("float32", "float64", "float32"):
        with upcast.upcasting(dtype == "float64"), side.default_dtype(dtype):
            assert table() is table()
            found.append(str(table().dtype).rpartition(".")[2])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
