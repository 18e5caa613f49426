"""PaConvert on a function whose argument has the name of something that is imported from torch."""

import subprocess
import sys
import tempfile
from pathlib import Path

BEFORE = """from torch import tensor


def of(tensor):
    return tensor.dtype
"""
with tempfile.TemporaryDirectory() as folder:
    source, result = Path(folder, "source.py"), Path(folder, "result.py")
    source.write_text(BEFORE)
    command = [sys.executable, "-m", "paconvert.main", "-i", source, "-o", result]
    subprocess.run([*command, "--log_dir", "disable"], check=True, capture_output=True)
    after = result.read_text()
print("before", BEFORE.splitlines()[-1].strip())
print("after ", after.splitlines()[-1].strip())
sys.exit("return tensor.dtype" not in after)
