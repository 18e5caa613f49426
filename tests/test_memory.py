"""Freed memory is kept while a worker computes, and given back before it waits."""

import ctypes
import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, sys
import numpy as np
from twincheck.common.system.memory import give_back_freed_memory, keep_freed_memory

def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

class Cycle:
    pass

if sys.argv[1] == "keep":
    keep_freed_memory()
sizes = [resident()]
held = Cycle()
held.itself, held.array = held, np.ones(50 * 2**17)  # 50 MiB
del held.array
sizes.append(resident())
held.array = np.ones(50 * 2**17)
del held
give_back_freed_memory()
sizes.append(resident())
print(json.dumps(sizes))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
@pytest.mark.parametrize("keep", [True, False])
def test_freed_memory_is_kept_till_it_is_given_back(keep):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "keep" if keep else "-"],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")},
    )
    before, freed, given_back = json.loads(done.stdout)
    assert (freed - before > 45) == keep, "without the setting this would show nothing"
    assert given_back - before < 10
