"""What every test needs: the checkout on the path, and the frameworks' threads settled.

The environment is set here because it must be there before a framework is imported, and because
the processes that tests start inherit it.
"""

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# In importlib mode pytest puts nothing on the path: the checkout, and the tests' own helpers.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# Small tensors gain nothing from many threads, and test files run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from common.system.processes import processor_is_amd  # noqa: E402  (NumPy reads the number of threads)

# As the twins have it. Intel's processors obey it too, and leave the path that users are on.
if processor_is_amd():
    os.environ.setdefault("MKL_DEBUG_CPU_TYPE", "5")
# Figures are written, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")
# Started in the background, a suite has these ignored, and so would all that it starts.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
