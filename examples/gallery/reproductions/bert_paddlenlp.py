"""bert_paddlenlp: the gradient of network.bert.embeddings.word_embeddings.weight is off"""

import numpy as np
import paddle
import torch

rng = np.random.default_rng(0)
v0 = rng.normal(-0.000447, 0.0197, (60, 32))  # network.bert.embeddings.word_embeddings.weight
v1 = rng.integers(0, 59, (3, 12))  # network:in/input_ids


def given(tensor, precision, *arrays):
    return [tensor(v.astype(precision) if v.dtype.kind == "f" else v) for v in arrays]


def gradient(total, x):
    if total.grad_fn is not None:
        total.backward()
    return np.zeros(x.shape) if x.grad is None else x.grad.numpy()


def by_torch(precision):
    x0, x1 = given(torch.tensor, precision, v0, v1)
    x0.requires_grad = True
    y0 = torch.nn.functional.embedding(x1, x0, padding_idx=0, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    return gradient((y0 * y0).sum(), x0)


def by_paddle(precision):
    x0, x1 = given(paddle.to_tensor, precision, v0, v1)
    x0.stop_gradient = False
    y0 = paddle.nn.functional.embedding(x1, weight=x0, padding_idx=None, max_norm=None, norm_type=2.0, sparse=False, scale_grad_by_freq=False)
    return gradient((y0 * y0).sum(), x0)


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
