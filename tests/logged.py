"""What the steps leave of a small pair, written without a framework: logs, sidecars, reports."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from builders import write_log

from twincheck.common.logs.guide_pair import bring_pair, has_pair
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import Sidecar, seal, write_sidecar
from twincheck.common.system.checkout import ROOT

PAIR = str(ROOT / "tests" / "pairs" / "small_cnn")
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
        writer = write_log(path, arrays)
        told = {
            "schema": 1,
            "step": stem,
            "model": "small_cnn",
            "side": side,
            "framework": side,
            "framework_version": "1.0",
            "framework_file": f"/site-packages/{side}/__init__.py",
            "frameworks_loaded": [side],
            "device": "cpu",
            "preset": "default",
            "seed": 0,
            "mode": "both",
            "dtype": np.dtype(dtype).name,
            "inputs_sha256": "1" * 64,
            "weights_sha256": "2" * 64,
            "log_sha256": writer.sha256,
            "teacher_forced": False,
            "batches": {"": 5},
            "places": {key: "torch_model.py:1" for key in tensors},
            "environment": {"python": "3.11", "numpy": "2"},
            "command": "python -m twin",
        }
        sidecar = Sidecar(**told | entries)
        write_sidecar(path, replace(sidecar, seal=seal(sidecar)))
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
