"""t5_near_paddlenlp: network.encoder.block.0.layer.0.SelfAttention.relative_attention_bias
(Embedding) is given other values: look at the code of network.encoder.block.0.layer.0.SelfAttention
before it"""

import numpy as np
import paddle
import torch

given = np.load("t5_near_paddlenlp.npz")
v0 = given["v0"]
v1 = given["v1"]
v2 = given["v2"]
v3 = given["v3"]


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    x0, x1, x2, x3 = given(torch.tensor, precision, v0, v1, v2, v3)
    y0 = x0.add(0)
    y1 = x3.div(1.3862943611198906)
    y2 = y1.mul(2)
    y3 = y2.to(torch.int64)
    y4 = y3.add(2)
    y5 = torch.full_like(y4, 3)
    y6 = torch.min(y4, y5)
    y7 = torch.where(x2, x1, y6)
    y0.add_(y7)
    return y0.detach().numpy()


def by_paddle(precision):
    x0, x1, x2, x3 = given(paddle.to_tensor, precision, v0, v1, v2, v3)
    y0 = 2 + (x3 / 4.1588830833596715 * 2).astype(paddle.int64)
    y1 = 0 + x0 + paddle.where(x2, x1, paddle.minimum(y0, paddle.full_like(y0, 3)))
    return y1.numpy()


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
