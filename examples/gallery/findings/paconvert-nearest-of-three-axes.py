"""PaConvert on torch's nearest Upsample, which Paddle's is not for three axes."""

import subprocess
import sys
import tempfile
from pathlib import Path

import paddle

BEFORE = """from torch import nn

twice = nn.Upsample(scale_factor=2, mode="nearest")
"""
with tempfile.TemporaryDirectory() as folder:
    source, result = Path(folder, "source.py"), Path(folder, "result.py")
    source.write_text(BEFORE)
    command = [sys.executable, "-m", "paconvert.main", "-i", source, "-o", result]
    subprocess.run([*command, "--log_dir", "disable"], check=True, capture_output=True)
    after = result.read_text()


def refused(source):
    """Return whether what the source builds refuses a sequence, (N, C, L)."""
    names = {}
    exec(source, names)
    try:
        names["twice"](paddle.ones([2, 3, 4]))
    except ValueError as error:
        print(error)
        return True
    return False


print("before", BEFORE, "after", after, sep="\n")
sys.exit(refused(after))
