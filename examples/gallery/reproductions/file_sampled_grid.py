"""file_sampled_grid: the model's output is off"""

import numpy as np
import paddle
import torch

rng = np.random.default_rng(0)
v0 = rng.normal(-0.00523, 1.01, (2, 3, 7, 6))
v1 = rng.normal(0.317, 0.43, (2, 2, 3))


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    F = torch.nn.functional
    x0, x1 = given(torch.tensor, precision, v0, v1)
    y0 = F.affine_grid(x1, [2, 3, 7, 6], align_corners=None)
    y1 = F.grid_sample(x0, y0, mode='bilinear', padding_mode='zeros', align_corners=None)
    return y1.detach().numpy()


def by_paddle(precision):
    F = paddle.nn.functional
    x0, x1 = given(paddle.to_tensor, precision, v0, v1)
    y0 = F.grid_sample(x0, F.affine_grid(theta=x1, out_shape=[2, 3, 7, 6]))
    return y0.numpy()


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
