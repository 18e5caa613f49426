"""PaConvert on a class that derives from torch's Dataset."""

import subprocess
import sys
import tempfile
from pathlib import Path

BEFORE = """from torch.utils.data import Dataset


class Images(Dataset):
    pass
"""
with tempfile.TemporaryDirectory() as folder:
    source, result = Path(folder, "source.py"), Path(folder, "result.py")
    source.write_text(BEFORE)
    command = [sys.executable, "-m", "paconvert.main", "-i", source, "-o", result]
    subprocess.run([*command, "--log_dir", "disable"], check=True, capture_output=True)
    after = result.read_text()
print("before", BEFORE, "after", after, sep="\n")
sys.exit("paddle.utils.data.Dataset" in after)
