"""PaConvert on a file that names something of torch which it does not translate."""

import subprocess
import sys
import tempfile
from pathlib import Path

BEFORE = """import torch

HAS = hasattr(torch.nn.functional, "scaled_dot_product_attention")
"""
with tempfile.TemporaryDirectory() as folder:
    source, result = Path(folder, "source.py"), Path(folder, "result.py")
    source.write_text(BEFORE)
    command = [sys.executable, "-m", "paconvert.main", "-i", source, "-o", result]
    subprocess.run([*command, "--log_dir", "disable"], check=True, capture_output=True)
    after = result.read_text()
print("before", *BEFORE.split("\n\n"), sep="\n")
print("after", after, sep="\n")
sys.exit("torch.nn.functional" in after and "import torch" not in after)
