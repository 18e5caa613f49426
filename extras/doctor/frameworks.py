"""Does a framework work, on what, and does it see a GPU: asked in a process of its own.

An import that crashes, or never ends, is what the process says, and no more.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.system.checkout import PATH
from twincheck.common.system.errors import UserError
from twincheck.common.system.interpreters import interpreter
from twincheck.common.system.processes import environment, how_it_ended
from twincheck.common.system.start import installed
from twincheck.extras.doctor import Kind

PATIENCE_S = 120.0  # a cold disk; on an idle machine it takes two seconds
_MARK = "@doctor "

# Imports, multiplies in float64 as a check does, and looks for GPUs, under the user's settings.
_QUESTION = """
import json, sys
side = sys.argv[1]
if side == "torch":
    import torch as lib
    hip = getattr(lib.version, "hip", None)
    built = "CUDA " + lib.version.cuda if lib.version.cuda else "ROCm " + hip if hip else None
    cuda, seen = lib.cuda, lib.cuda.is_available()
    product = lib.eye(2, dtype=lib.float64) @ lib.ones([2, 2], dtype=lib.float64)
else:
    import paddle as lib
    built = "CUDA " + lib.version.cuda() if lib.device.is_compiled_with_cuda() else None
    cuda, seen = lib.device.cuda, bool(built)
    lib.set_device("cpu")
    product = lib.eye(2, dtype="float64") @ lib.ones([2, 2], dtype="float64")
assert product.numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]], "a product of 1 is not 1"
names = [cuda.get_device_name(i) for i in range(cuda.device_count())] if seen else []
answer = {"version": lib.__version__, "file": lib.__file__, "built_for": built, "gpus": names}
print("@doctor " + json.dumps(answer))
"""


@dataclass(frozen=True)
class Framework:
    """The answer of this Python on a framework.

    problem     why it cannot be used; empty where it works
    built_for   the CUDA or ROCm that it was built for, with its version; None for a CPU build
    """

    side: str
    problem: str = ""
    version: str = ""
    file: str = ""
    built_for: str | None = None
    gpus: Sequence[str] = field(default_factory=list)
    is_here: bool = True

    @property
    def works(self) -> bool:
        """True if a check can run with it."""
        return not self.problem


def examine(side: str, within_s: float = PATIENCE_S) -> Framework:
    """Import a framework in a process that has some time for it."""
    if not installed(side):
        return Framework(side, problem=Kind.NO_PYTHON_HAS_IT(), is_here=False)
    try:
        python = interpreter(side, sys.executable)
    except UserError as error:
        return Framework(side, problem=str(error))
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-c", _QUESTION, side],
            cwd=PATH,
            env=environment(python=python),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
        )
    except subprocess.TimeoutExpired:
        return Framework(side, problem=Kind.IMPORT_ENDLESS(seconds=within_s))
    except OSError as error:
        return Framework(side, problem=Kind.PYTHON_NOT_RUN(error=str(error.strerror)))
    said = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not said:
        ended = how_it_ended(done.returncode, done.stderr.splitlines())
        return Framework(side, problem=Kind.IMPORT_ENDED(ended=ended))
    answer = json.loads(said[-1][len(_MARK) :])
    answer["file"] = str(Path(answer["file"]).parent)
    return Framework(side, **answer)
