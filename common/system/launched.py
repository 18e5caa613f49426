"""Run a module that starts processes, such as torchrun, and end it when its parent is gone.

    python -m twincheck.common.system.launched MODULE ARGUMENT…

A launcher knows nothing of the check that started it, and would go on without.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    from twincheck.common.system.processes import watch
    from twincheck.common.system.start import show_help

    show_help(__doc__)
    watch()
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        # Paddle's launcher takes an empty list for one device; this word hides all of them as well.
        os.environ["CUDA_VISIBLE_DEVICES"] = "all"
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
