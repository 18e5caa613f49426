"""Run a module that starts processes, such as torchrun, and end it when its parent is gone.

    python -m common.system.launched MODULE ARGUMENT…

A launcher knows nothing of the check that started it, and would go on without.
"""

import runpy
import sys

from common.system.processes import watch

if __name__ == "__main__":
    watch()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
