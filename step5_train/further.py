"""Which trainings need not run, and which further ones may decide."""

from pathlib import Path

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.row import FAILING
from twincheck.step5_train.envelope import (
    stored,
)

# The check goes on to so many seeds by itself where a side's training takes less than SHORT_S each.
MOST_SEEDS, SHORT_S = 5, 120.0
DRIFTED = ("train/drift/", "train/final_")  # rows of where float32 has taken a whole training


def is_stored(launch, folder: Path, pair, request: RunRequest) -> bool:
    """True for self-twins that have run, or that the stored envelope of one seed stands for."""
    if launch.request.get("phase") != "self":
        return False
    there = all(ResultFolder(folder).log("train_self", side).is_file() for side in SIDES)
    return there or (request.seeds == 1 and stored(folder, pair, request)[0] is not None)


def further(result, folder: Path) -> dict[str, object]:
    """Return what to ask for where these trainings do not decide; {} where more would not either.

    Where all is right but where float32 has taken whole trainings: these in float64.  Further seeds
    one by one, of short trainings alone, until the interval decides.
    """
    off = {row.key for row in result.rows if row.verdict in FAILING}
    if result.error or not result.exit_code or not off:
        return {}
    files = ResultFolder(folder)
    cars = [sidecar_of(files.log("train_full", side)) for side in SIDES]
    if all(key.startswith("seeds/") for key in off):
        seeds = max(1, len(cars[0].batches))
        short = max(car.elapsed_s for car in cars) < SHORT_S * seeds
        wanted = result.verdict == "UNDECIDED" and short and seeds < MOST_SEEDS
        return {"seeds": seeds + 1, "resume": True} if wanted else {}
    wanted = all(key.startswith((*DRIFTED, "seeds/")) for key in off)
    for side, car in zip(SIDES, cars, strict=True):
        first = files.log("train_first", side, RunKind.FLOAT64)
        wanted &= car.dtype == "float32" and first.is_file()
    there = files.log("train_full", "paddle", RunKind.FLOAT64).is_file()
    return {"phase": "float64"} if wanted and not there else {}
