"""squeezenet1_1: network.features.3.squeeze (Conv2d) is given other values: look at the code of
network.features.3 before it"""

import numpy as np
import paddle
import torch

rng = np.random.default_rng(0)
v0 = rng.normal(-0.00468, 0.273, (64, 3, 3, 3))  # network.features.0.weight
v1 = np.full((64,), 0.0)  # network.features.0.bias
v2 = rng.normal(0.00231, 0.998, (2, 3, 48, 48))  # network:in/0


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    F = torch.nn.functional
    x0, x1, x2 = given(torch.tensor, precision, v0, v1, v2)
    y0 = F.conv2d(x2, x0, x1, (2, 2), (0, 0), (1, 1), 1)
    F.relu(y0, inplace=True)
    y1 = F.max_pool2d(y0, 3, stride=2, padding=0, dilation=1, ceil_mode=True, return_indices=False)
    return y1.detach().numpy()


def by_paddle(precision):
    F = paddle.nn.functional
    x0, x1, x2 = given(paddle.to_tensor, precision, v0, v1, v2)
    y0 = F.conv2d(x2, x0, bias=x1, stride=[2, 2], padding=[1, 1], dilation=[1, 1], groups=1, data_format='NCHW')
    y1 = F.relu(y0)
    y2 = F.max_pool2d(y1, kernel_size=3, stride=2, padding=0, return_mask=False, ceil_mode=False, data_format='NCHW')
    return y2.numpy()


runs = [(f, p) for f in (by_torch, by_paddle) for p in ("float32", "float64")]
found = [np.clip(np.float64(f(p)), -1e38, 1e38) for f, p in runs]
truth, shape = found[1], found[3].shape
if shape != truth.shape:
    raise SystemExit(f"torch's has the shape {truth.shape}, Paddle's {shape}")
known = np.abs(truth[(truth != 0) & ~np.isnan(truth)])
size = np.maximum(np.abs(truth), np.median(known) if known.size else 1)
apart = [np.nan_to_num(np.abs(v - truth) / size) for v in found]
off = [np.where(np.isnan(v) == np.isnan(truth), a, np.inf) for v, a in zip(found, apart)]
at = np.unravel_index(np.argmax(off[2]), shape)
for (f, p), v, o in zip(runs, found, off):
    print(f"{f.__name__} {p}: {v[at]:.9g} at {list(map(int, at))}; off by {o.max():.1e} at most")
raise SystemExit(int(off[3].max() > 1e-6 or off[2].max() > 30 * max(off[0].max(), 1e-7)))
