"""What a log was made from: the sources of a side, by hash; which frameworks a process holds.

NumPy-free: the twins write these into their sidecars, the check's process compares them.
"""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

from common.errors import UserError
from common.pairs import FAKE_DATA, ROOT, Pair

COMPAT = (
    "paddle.enable_compat() makes `import torch` give Paddle, so that both logs would come from "
    "one framework: take the call out of the pair's files"
)
SIDES = ("torch", "paddle")
# Of runs on a GPU, unless the user says otherwise: no TF32, and the same result every time.
ON_GPU = {
    "NVIDIA_TF32_OVERRIDE": "0",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "FLAGS_use_accuracy_compatible_kernel": "1",
}
# Of the environment, what a result's last bits can depend on; a sidecar tells it.
SETTINGS = ("OMP_NUM_THREADS", "MKL_DEBUG_CPU_TYPE", *ON_GPU)
_COMPAT_CALLS = (
    *("enable_compat", "use_compat_guard"),
    *("enable_torch_proxy", "use_torch_proxy_guard"),
)


def model_sources(pair: Pair, side: str) -> dict[str, str]:
    """File -> SHA-256 of a pair's Python files that a side reads: all but the other side's model.

    Names are relative to the pair's folder.
    """
    other = f"{SIDES[1 - SIDES.index(side)]}_model.py"
    return {
        path.relative_to(pair.folder).as_posix(): _sha256(path)
        for path in sorted(pair.folder.rglob("*.py"))
        if path.name != other and "__pycache__" not in path.parts
    }


def workbench_sha256(pair: Pair, side: str, step_folder: str) -> str:
    """One SHA-256 of the workbench's own files that a side's run of a step depends on."""
    other = SIDES[1 - SIDES.index(side)]
    paths = [path for path in (ROOT / "common").glob("*.py") if not path.name.startswith(other)]
    paths += (ROOT / step_folder / side).glob("*.py")
    if pair.built_in:
        paths += (ROOT / "common" / "models").glob("*.py")
        paths += FAKE_DATA.glob(f"{pair.name}.npz")
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT).as_posix()} {_sha256(path)}\n".encode())
    return digest.hexdigest()


def changed_sources(sidecar: Mapping[str, object], pair: Pair, side: str) -> list[str]:
    """The pair's files that are not what they were when a log was made; none without a record."""
    recorded = sidecar.get("sources")
    if not isinstance(recorded, dict) or not recorded:
        return []
    now = model_sources(pair, side)
    return sorted(name for name in {*recorded, *now} if recorded.get(name) != now.get(name))


def frameworks_loaded() -> list[str]:
    """Which of torch and paddle this process holds."""
    return [side for side in SIDES if side in sys.modules]


def forbid_compat() -> None:
    """Make paddle.enable_compat(), which puts Paddle behind `import torch`, a UserError here."""

    def refuse(*arguments, **options):
        raise UserError(COMPAT)

    paddle = sys.modules.get("paddle")
    for holder in filter(None, (paddle, getattr(paddle, "compat", None))):
        for name in _COMPAT_CALLS:
            if hasattr(holder, name):
                setattr(holder, name, refuse)


def torch_is_paddle() -> bool:
    """True where Paddle answers to `import torch` (paddle.enable_compat)."""
    if any(type(finder).__module__.startswith("paddle") for finder in sys.meta_path):
        return True
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", "") or ""
    return torch is not None and "torch" not in Path(file).parts


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
