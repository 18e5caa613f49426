"""file_uneven_pieces: the model's output is off"""

import numpy as np
import paddle
import torch

rng = np.random.default_rng(0)
v0 = rng.normal(0.161, 0.478, (4, 8))  # inner


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    [x0] = given(torch.tensor, precision, v0)
    y0, y1, y2 = x0.split(3, dim=-1)
    y3 = torch.cat([y0.sub(y0.mean(dim=-1, keepdim=True)), y1.sub(y1.mean(dim=-1, keepdim=True)), y2.sub(y2.mean(dim=-1, keepdim=True))], dim=-1)
    return y3.detach().numpy()


def by_paddle(precision):
    [x0] = given(paddle.to_tensor, precision, v0)
    y0, y1 = paddle.split(x0, 2, -1)
    y2 = paddle.concat([y0 - paddle.mean(y0, dim=-1, keepdim=True), y1 - paddle.mean(y1, dim=-1, keepdim=True)], dim=-1)
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
