"""torchvision beside a torch that is built for the CPU: its import must not need its operators.

PyPI's torchvision is built for CUDA.  Beside a torch for the CPU its compiled operators cannot be
loaded, and the module that declares them to torch's compiler ends the import.  No network of the
gallery uses one, so an empty module stands in for it, in this environment alone.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

try:
    import torchvision  # noqa: F401
except RuntimeError as error:
    if "torchvision::nms" not in str(error):
        raise
    folder = Path(importlib.util.find_spec("torchvision").origin).parent
    (folder / "_meta_registrations.py").write_text("")

check = "import torchvision, vit_pytorch, performer_pytorch, paconvert.main, paddle"
raise SystemExit(subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", check]).returncode)
