"""Is it the framework? Three products in float32, by torch, by Paddle, and nearly exactly.

    python examples/matmul/compare.py [--device cpu|gpu] [--seed N]

Prints the largest difference between the two sides, and each side's own distance to the product in
float64, whose own rounding is a billionth of float32's.  With --device gpu also with TF32.
"""

import argparse
import sys

import numpy as np
import paddle
import torch
from rich.console import Console
from rich.table import Table

SHAPES = (32, 768, 768)  # rows, what is summed over, columns: a Linear of width 768
INPUTS = {
    "x, w ~ N(0, 0.02²)": (0.02, 0.02),
    "x ~ N(0, 1), w ~ N(0, 0.02²)": (1.0, 0.02),
    "x, w ~ N(0, 1)": (1.0, 1.0),
}


def products(x, w, device):
    """The product of two float32 arrays by torch and by Paddle, as float32 arrays."""
    by_torch = torch.matmul(*(torch.tensor(values).to(device[0]) for values in (x, w)))
    place = paddle.CPUPlace() if device[1] == "cpu" else paddle.CUDAPlace(0)
    by_paddle = paddle.matmul(*(paddle.to_tensor(values, place=place) for values in (x, w)))
    return by_torch.cpu().numpy(), by_paddle.numpy()


def measured(seed, device):
    """Rows (inputs, torch - paddle, torch - exact, paddle - exact, float32's step) of maxima."""
    rng = np.random.default_rng(seed)
    rows, inner, columns = SHAPES
    for name, (of_x, of_w) in INPUTS.items():
        x = rng.normal(0.0, of_x, (rows, inner)).astype(np.float32)
        w = rng.normal(0.0, of_w, (inner, columns)).astype(np.float32)
        exact = x.astype(np.float64) @ w.astype(np.float64)
        by_torch, by_paddle = products(x, w, device)
        apart = np.abs(by_torch - by_paddle).max()
        off = [np.abs(product - exact).max() for product in (by_torch, by_paddle)]
        yield (name, float(apart), *map(float, off), float(np.spacing(np.float32(exact.std()))))


def set_tf32(on):
    """Let both frameworks' products use TF32, or not."""
    torch.backends.cuda.matmul.allow_tf32 = on
    paddle.set_flags({"FLAGS_cublas_allow_tf32": on})


def main():
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device = ("cpu", "cpu")
    if options.device == "gpu":
        if not (torch.cuda.is_available() and paddle.device.is_compiled_with_cuda()):
            print("error: --device gpu: not both frameworks find a GPU here", file=sys.stderr)
            return 2
        device = ("cuda", "gpu")
    for tf32 in (False,) if options.device == "cpu" else (False, True):
        if options.device == "gpu":
            set_tf32(tf32)
        mode = "" if options.device == "cpu" else f", TF32 {'on' if tf32 else 'off'}"
        title = "{}×{} by {}×{}, ".format(*SHAPES[:2], *SHAPES[1:]) + options.device + mode
        table = Table(title=title, title_justify="left")
        for heading in ("inputs", "torch − paddle", "torch − exact", "paddle − exact", "float32"):
            table.add_column(heading)
        for name, *numbers in measured(options.seed, device):
            table.add_row(name, *(f"{number:.1e}" for number in numbers))
        Console(width=None if sys.stdout.isatty() else 100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
