"""What the last `make faults` found, as long as nothing that it depends on has changed since.

`make test` judges eight faults of the catalogue too; after `make faults` it need not once more.
"""

import hashlib
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

from faults.checkout import CHECKS, ROOT
from faults.worker import PAIRS
from twincheck.common.system.processes import environment

RESULT = ROOT / "log" / "faults.json"
_STEPS = (str(Path(check).parent) for check in CHECKS.values())
_FOLDERS = ("twincheck", "common", "extras", "fake_data", "faults", *_STEPS)
_DISTRIBUTIONS = ("torch", "paddlepaddle", "numpy", "scipy", "scikit-learn", "reprod_log")
_SETTINGS = ("OMP_", "MKL_", "ATEN_", "ONEDNN_", "DNNL_")  # what tells a library how to compute
_MADE = {"log", "__pycache__"}  # folders of what is made here


def sources_sha256(root: Path = ROOT) -> str:
    """One SHA-256 of all that a verdict on a fault depends on: files, versions, settings."""
    digest = hashlib.sha256()
    for folder in (*_FOLDERS, *PAIRS):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and not _MADE & set(name.parts):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name.as_posix()} {content}\n".encode())
    settings = sorted(item for item in environment().items() if item[0].startswith(_SETTINGS))
    versions = [f"{name} {version(name)}" for name in _DISTRIBUTIONS]
    digest.update(json.dumps([settings, versions, platform.platform(), os.cpu_count()]).encode())
    return digest.hexdigest()


def recorded(path: Path = RESULT) -> dict[str, dict]:
    """Fault's id -> what was found when it was planted; empty where that no longer holds."""
    try:
        found = json.loads(path.read_text())
        still = found["faults"] if found["sources"] == sources_sha256() else []
        return {fault["id"]: fault for fault in still}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
