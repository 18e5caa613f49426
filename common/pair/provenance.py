"""What a log was made from: hashes of the source files that a side's run depends on.

The twins write these into their sidecars, the check's process compares them.
"""

import hashlib
from collections.abc import Mapping

from common.pair.pairs import Pair
from common.system.checkout import FAKE_DATA, ROOT
from common.system.frameworks import SIDES
from common.system.hashes import file_sha256

# The rooms of common/ whose code runs in a twin, or prepares what a twin reads.
_ROOMS_OF_A_LOG = ("system", "logs", "pair", "weights", "transplant", "sides")


def model_sources(pair: Pair, side: str) -> dict[str, str]:
    """File -> SHA-256 of a pair's Python files that a side reads: all but the other side's model.

    Names are relative to the pair's folder.
    """
    other = f"{SIDES[1 - SIDES.index(side)]}_model.py"
    return {
        path.relative_to(pair.folder).as_posix(): file_sha256(path, links=True)
        for path in sorted(pair.folder.rglob("*.py"))
        if path.name != other and "__pycache__" not in path.parts
    }


def workbench_sha256(pair: Pair, side: str, step_folder: str) -> str:
    """One SHA-256 of the workbench's own files that a side's run of a step depends on.

    What only judges or shows a log is left out: a change of it makes no log stale.
    """
    other = SIDES[1 - SIDES.index(side)]
    common, step = ROOT / "common", ROOT / step_folder
    paths = [path for room in _ROOMS_OF_A_LOG for path in (common / room).rglob("*.py")]
    paths += [common / f"{side}_side.py", *(step / side).glob("*.py")]
    paths += [path for path in step.glob("*.py") if not path.name.startswith("check_")]
    if pair.built_in:
        paths += (common / "models").glob("*.py")
        paths += FAKE_DATA.glob(f"{pair.name}.npz")
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if not path.name.startswith(f"{other}_")):
        digest.update(
            f"{path.relative_to(ROOT).as_posix()} {file_sha256(path, links=True)}\n".encode()
        )
    return digest.hexdigest()


def changed_sources(recorded: Mapping[str, str], pair: Pair, side: str) -> list[str]:
    """The pair's files that are not what they were when a log was made; none without a record.

    recorded  what model_sources was then, as the log's sidecar has it
    """
    if not recorded:
        return []
    now = model_sources(pair, side)
    return sorted(name for name in {*recorded, *now} if recorded.get(name) != now.get(name))
