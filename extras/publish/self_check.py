"""An exported repository tried once before it is put in its place: are the bits the Paddle model's?

Its own programs run, by the Python of the Paddle side, with neither the workbench nor the reference
to be found.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.npz import read_npz
from twincheck.common.system.processes import Child, environment
from twincheck.extras.publish import Kind

# What an import is not to find, even where it is installed.
ABSENT = ("twincheck", "torch", "torchvision", "torchaudio", "reprod_log", "sklearn")
_ALONE = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({ABSENT}))
sys.path.insert(0, ".")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_alone(python: str, folder: Path, program: str, arguments: Sequence[str]) -> tuple[int, str]:
    """Run a program of an exported repository; its exit status and what it said."""
    code = f"import sys; del sys.argv[0]{_ALONE}"
    command = [python, "-I", "-B", "-W", "ignore", "-c", code, program, *arguments]
    child = Child(
        command,
        environment(),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        said, _ = child.communicate()
    finally:
        child.stop()
    return child.returncode, said


def check_bits(python: str, folder: Path, outputs: Mapping[str, np.ndarray], work: Path) -> int:
    """Run predict.py and compare; the number of outputs that have the Paddle model's bits: all.

    Raises UserError that names the first output that has not.
    """
    path = work / "outputs.npz"
    path.unlink(missing_ok=True)
    status, said = run_alone(python, folder, "predict.py", ["--output", str(path)])
    if not path.is_file():
        raise UserError(Kind.PREDICT_DOES_NOT_RUN(line=last_line(said)))
    different = differing(read_npz(path), outputs)
    if different:
        more = len(different) - 1
        more = Kind.OUTPUTS_MORE(count=more) if more else ""
        raise UserError(Kind.MODEL_OTHER(output=different[0], more=more))
    return len(outputs)


def differing(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence for each output that is not the same, bit for bit."""
    if not wanted:
        return [Kind.OUTPUT_NONE()]
    sentences = []
    for name in dict.fromkeys([*wanted, *found]):
        if name not in found or name not in wanted:
            of_paddle = name in wanted
            alone = Kind.OUTPUT_OF_PADDLE_ALONE if of_paddle else Kind.OUTPUT_OF_EXPORT_ALONE
            sentences.append(alone(name=name))
            continue
        mine, theirs = found[name], wanted[name]
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            types = [f"{one.dtype}{list(one.shape)}" for one in (mine, theirs)]
            other = Kind.OUTPUT_OF_OTHER_TYPE(name=name, found=types[0], wanted=types[1])
            sentences.append(other)
        elif mine.tobytes() != theirs.tobytes():
            count = int((_bits(mine) != _bits(theirs)).any(axis=-1).sum())
            with np.errstate(all="ignore"):
                gap = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
            gap = gap[np.isfinite(gap)].max(initial=0.0)
            told = {"name": name, "count": count, "values": mine.size, "gap": gap}
            sentences.append(Kind.OUTPUT_DIFFERS(**told))
    return sentences


def _bits(values: np.ndarray) -> np.ndarray:
    """Each value's bytes, (values, bytes)."""
    return np.frombuffer(values.tobytes(), np.uint8).reshape(values.size, values.itemsize)


def last_line(said: str) -> str:
    """The last line that says something, such as an exception's."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or line.startswith("error:")]
    return (telling or lines)[-1][:300] if lines else Kind.SAID_NOTHING()
