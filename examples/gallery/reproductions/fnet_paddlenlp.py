"""fnet_paddlenlp: network.fnet.encoder.layer.0.fourier.output (FNetBasicOutput) is given other
values: look at the code of network.fnet.encoder.layer.0.fourier before it"""

import numpy as np
import paddle
import torch

rng = np.random.default_rng(0)
v0 = rng.normal(-0.011, 0.113, (3, 12, 32))  # network.fnet.embeddings.projection


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def by_torch(precision):
    [x0] = given(torch.tensor, precision, v0)
    y0 = torch.fft.fftn(x0, dim=(1, 2)).real
    return y0.detach().numpy()


def by_paddle(precision):
    [x0] = given(paddle.to_tensor, precision, v0)
    y0 = paddle.real(paddle.fft.fftn(x0))
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
