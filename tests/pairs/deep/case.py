"""Models that the checks' own noise and learning rates are too much for.

deep      16 convolutions, each beside a residual: the usual noise and SGD at 0.05 overflow
no_bias   the same; on the Paddle side one convolution has lost its bias
waves     a sine of large slope: bounded, and chaotic under any rate that is not tiny
"""

import numpy as np

_DEEP = {"kind": "deep", "layers": 16, "channels": 8, "faults": []}
CONFIGS = {
    "default": _DEEP,
    "no_bias": _DEEP | {"faults": ["no_bias"]},
    "waves": _DEEP | {"kind": "waves", "layers": 1},
}


def make_inputs(config, seed):
    """x (B, C, H, W) and wanted (B, C) float"""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((3, config["channels"], 4, 4)).astype(np.float32),
        "wanted": rng.standard_normal((3, config["channels"])).astype(np.float32),
    }
