"""gemma3_paddleformers: network.model.layers.0.self_attn.o_proj (Linear) is given other values:
look at the code of network.model.layers.0.self_attn before it"""

import numpy as np
import paddle
import torch

given = np.load("gemma3_paddleformers.npz")
v0 = given["v0"]
v1 = given["v1"]
v2 = given["v2"]
v3 = given["v3"]
v4 = given["v4"]  # network.model.layers.0:in/attention_mask


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    x0, x1, x2, x3 = given(torch.tensor, precision, v0, v1, v2, v3)
    y0 = torch.nn.functional.scaled_dot_product_attention(x0, x1, x2, x3, 0.0, False, scale=0.3535533905932738)
    y1 = y0.transpose(1, 2).reshape(3, 12, -1)
    return y1.detach().numpy()


def by_paddle(precision):
    dtype = precision
    x0, x1, x2, x4 = given(paddle.to_tensor, precision, v0, v1, v2, v4)
    y0 = paddle.matmul(x0, paddle.transpose(x1, 2, 3)) * 0.3535533905932738 + paddle.where(x4, 0.0, -np.finfo(precision).max)[:, :, :, :12]
    y1 = paddle.matmul(paddle.nn.functional.softmax(y0, axis=-1, dtype=dtype), x2)
    y2 = paddle.reshape(x=paddle.transpose(y1, 1, 2), shape=[0, 0, 32])
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
