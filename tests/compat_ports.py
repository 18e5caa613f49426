"""Ten models as torch has them, which run on Paddle under paddle.enable_compat(); and mistakes."""

CASE = """
import numpy as np

CONFIGS = {"default": {}}


def make_inputs(config, seed):
    draw = np.random.default_rng(seed)
    return {"x": draw.__MAKE__, "labels": draw.integers(0, 3, 4)}
"""
FLOATS = "standard_normal(({})).astype(np.float32)"
INTEGERS = "integers(0, 12, ({}))"
TEXT = """
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
__MADE__

    def forward(self, x):
__RUN__


def build(config):
    return Net()


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
"""
# Name -> what x is, what __init__ makes, and what forward does.
_PORTS = {
    "mlp": (
        FLOATS.format("4, 6"),
        "self.a = nn.Linear(6, 8); self.n = nn.LayerNorm(8); self.b = nn.Linear(8, 3)",
        "return self.b(F.gelu(self.n(self.a(x))))",
    ),
    "cnn": (
        FLOATS.format("4, 3, 8, 8"),
        "self.c = nn.Conv2d(3, 6, 3, padding=1); self.n = nn.GroupNorm(2, 6); "
        "self.b = nn.Linear(96, 3)",
        "return self.b(torch.flatten(F.max_pool2d(F.relu(self.n(self.c(x))), 2), 1))",
    ),
    "words": (
        INTEGERS.format("4, 7"),
        "self.e = nn.Embedding(12, 8, padding_idx=0); self.b = nn.Linear(8, 3)",
        "kept = (x != 0).unsqueeze(-1).float()\n"
        "return self.b((self.e(x) * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1.0))",
    ),
    "attention": (
        FLOATS.format("4, 5, 8"),
        "self.q = nn.Linear(8, 24); self.o = nn.Linear(8, 3)",
        "q, k, v = torch.chunk(self.q(x).unflatten(-1, (2, 12)).transpose(1, 2), 3, dim=-1)\n"
        "a = torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1)\n"
        "return self.o((a @ v).transpose(1, 2).reshape(4, 5, 8).mean(dim=1))",
    ),
    "heads": (
        FLOATS.format("4, 5, 8"),
        "self.a = nn.MultiheadAttention(8, 2, batch_first=True); self.o = nn.Linear(8, 3)",
        "return self.o(self.a(x, x, x, need_weights=False)[0].mean(dim=1))",
    ),
    "shuffled": (
        FLOATS.format("4, 3, 4, 4"),
        "self.c = nn.Conv2d(3, 24, 1); self.a = nn.PReLU(); self.b = nn.Linear(6, 3)",
        "return self.b(self.a(F.pixel_shuffle(self.c(x), 2)).mean(dim=(2, 3)))",
    ),
    "depthwise": (
        FLOATS.format("4, 6, 8, 8"),
        "self.c = nn.Conv2d(6, 6, 3, groups=6, stride=2); self.d = nn.Conv2d(6, 8, 1, bias=False); "
        "self.b = nn.Linear(8, 3)",
        "return self.b(F.adaptive_avg_pool2d(F.hardswish(self.d(self.c(x))), 1).flatten(1))",
    ),
    "residual": (
        FLOATS.format("4, 6"),
        "self.m = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.3)) "
        "for _ in range(3)]); self.b = nn.Linear(6, 3)",
        "for m in self.m:\n    x = x + m(x)\nreturn self.b(x)",
    ),
    "rms": (
        FLOATS.format("4, 5, 8"),
        "self.w = nn.Parameter(torch.ones(8)); self.b = nn.Linear(8, 3, bias=False)",
        "x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w\n"
        "a, b = x[..., :4], x[..., 4:]\n"
        "return self.b(torch.cat([-b, a], dim=-1)).sum(dim=1)",
    ),
    "series": (
        FLOATS.format("4, 3, 16"),
        "self.c = nn.Conv1d(3, 6, 3, padding=1); self.n = nn.Conv1d(6, 6, 1); "
        "self.b = nn.Linear(6, 3)",
        "h = torch.tanh(self.n(self.c(x)))\n"
        'return self.b(torch.einsum("bct,t->bc", h, torch.arange(16, dtype=h.dtype) / 16.0))',
    ),
}
# How a port says that `import torch` is Paddle.
EVERYWHERE = "import paddle\n\npaddle.enable_compat()\n"
GUARDED = """
import paddle

with paddle.use_compat_guard():
    import torch
    from torch import nn
    from torch.nn import functional as F
"""
# What is wrong in a port -> the text, what it becomes, and where it shows.
FAULTS = {
    "mlp": ("nn.LayerNorm(8)", "nn.LayerNorm(8, eps=1e-3)", "n"),
    "attention": ("dim=-1)\n        return", "dim=-2)\n        return", ""),
    "residual": ("nn.Dropout(0.3)", "nn.Dropout(0.4)", "dropout:p"),
    "cnn": ("nn.GroupNorm(2, 6)", "nn.GroupNorm(3, 6)", "n"),
}


def _indented(text: str) -> str:
    lines = [line for part in text.split("; self") for line in ("self" + part).splitlines()]
    lines[0] = lines[0].removeprefix("self")
    return "\n".join(f"        {line}" for line in lines)


def _body(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.splitlines())


def torch_text(name: str) -> str:
    """torch_model.py of a port."""
    _, made, run = _PORTS[name]
    return TEXT.replace("__MADE__", _indented(made)).replace("__RUN__", _body(run))


def files(name: str, fault: bool = False, head: str = EVERYWHERE) -> dict[str, str]:
    """File -> its text, of a pair whose port is the reference's text."""
    text = torch_text(name)
    port = text
    if fault:
        old, new, _ = FAULTS[name]
        assert port.count(old) == 1, (name, old)
        port = port.replace(old, new)
    if head == GUARDED:
        port = port.partition("functional as F\n")[2]
    case = CASE.replace("__MAKE__", _PORTS[name][0])
    return {"case.py": case, "torch_model.py": text, "paddle_model.py": head + port}


NAMES = tuple(_PORTS)
