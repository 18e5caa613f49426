"""PaConvert on a dataclass whose field is annotated with torch's Tensor."""

import subprocess
import sys
import tempfile
from pathlib import Path

BEFORE = """from dataclasses import dataclass

from torch import Tensor


@dataclass
class Result:
    features: Tensor


def shown(features: Tensor):
    return Result(features)
"""
with tempfile.TemporaryDirectory() as folder:
    source, result = Path(folder, "source.py"), Path(folder, "result.py")
    source.write_text(BEFORE)
    command = [sys.executable, "-m", "paconvert.main", "-i", source, "-o", result]
    subprocess.run([*command, "--log_dir", "disable"], check=True, capture_output=True)
    after = result.read_text()
print("before", BEFORE, "after", after, sep="\n")
sys.exit("features: Tensor\n" in after and "import Tensor" not in after)
