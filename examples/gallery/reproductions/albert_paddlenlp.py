"""albert_paddlenlp: network.albert.encoder.albert_layer_groups.0.albert_layers.0.activation
(NewGELUActivation) computes something else from the same input"""

import numpy as np
import paddle
import torch

rng = np.random.default_rng(0)
v0 = rng.normal(0.00229, 0.121, (3, 12, 48))


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    [x0] = given(torch.tensor, precision, v0)
    y0 = torch.tanh(x0.add(torch.pow(x0, 3.0).mul(0.044715)).mul(0.7978845608028654))
    y1 = x0.mul(0.5).mul(y0.add(1.0))
    return y1.detach().numpy()


def by_paddle(precision):
    [x0] = given(paddle.to_tensor, precision, v0)
    y0 = paddle.nn.functional.gelu(x0)
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
