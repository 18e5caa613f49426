"""What the steps leave of a small pair, written without a framework: logs, sidecars, reports."""

from pathlib import Path

import numpy as np
from builders import SMALL_CNN, sealed_log

from twincheck.common.logs.guide_pair import bring_pair, has_pair
from twincheck.common.logs.reader import read_log

PAIR = str(SMALL_CNN)
RUNS = (
    *(("torch", "", np.float32), ("paddle", "", np.float32)),
    *(("torch", "_fp64", np.float64), ("paddle", "_fp64", np.float64)),
)


def write_logs(folder: Path, stem: str, tensors: dict, **entries) -> None:
    """A stem's four logs with sealed sidecars; tensors: key -> values, or an array for each run."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for number, (side, suffix, dtype) in enumerate(RUNS):
        path = folder / f"{stem}_{side}{suffix}.npy"
        noise = 1e-7 if dtype == np.float32 else 1e-16
        arrays = {
            key: values[number]
            if isinstance(values, tuple)
            else np.asarray(values * (1 + noise * rng.normal(size=np.shape(values))), dtype)
            for key, values in tensors.items()
        }
        told = dict(schema=1, step=stem, model="small_cnn", framework_version="1.0", device="cpu")
        told |= dict(preset="default", seed=0, mode="both", dtype=np.dtype(dtype).name)
        told |= dict(inputs_sha256="1" * 64, weights_sha256="2" * 64, teacher_forced=False)
        told |= dict(batches={"": 5}, places=dict.fromkeys(tensors, "torch_model.py:1"))
        told |= dict(environment={"python": "3.11", "numpy": "2"}, command="python -m twin")
        sealed_log(path, arrays, side, **told | entries)
    if has_pair(stem.removesuffix("_all")):
        bring_pair(folder, stem.removesuffix("_all"))
        write_report(folder, stem.removesuffix("_all"))


def write_report(folder: Path, stem: str) -> None:
    """Write what reprod_log writes of the guide's pair."""
    stamp, lines, good = "[2026/11/22 21:00:00] root INFO: ", [], True
    with (
        read_log(folder / f"{stem}_torch.npy") as torch,
        read_log(folder / f"{stem}_paddle.npy") as paddle,
    ):
        for key in torch:
            mean = np.abs(torch[key] - paddle[key]).mean()
            good &= (passed := not mean > 1e-6)
            lines += [f"{key}: ", f"\tmean diff: check passed: {passed}, value: {mean}"]
    lines.append(f"diff check {'passed' if good else 'failed'}")
    (folder / f"{stem}_diff.log").write_text("".join(f"{stamp}{line}\n" for line in lines))
