"""The reference's float64 values, that a run of the other side is fed with.

A log may hold sums of a large tensor; the whole tensor is then in another log of the same run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from common.logs.reader import Log, read_log
from common.logs.result_folder import FLOAT64, HALF_STEP, WHOLE, ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar


class Values(Mapping):
    """Key -> array, from the first of several logs that has it whole."""

    def __init__(self, logs: list[tuple[Log, frozenset[str]]]):
        """`logs`: each with the keys of which it has sums only."""
        self._logs = logs

    def __getitem__(self, key: str) -> np.ndarray:
        for log, sums in self._logs:
            if key in log and key not in sums:
                return log[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        seen = (key for log, sums in self._logs for key in log if key not in sums)
        return iter(dict.fromkeys(seen))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@contextmanager
def reference_values(
    files: ResultFolder,
    stem: str,
    runs: Sequence[str] = (WHOLE, FLOAT64),
    without: Collection[str] = (),
) -> Iterator[Values]:
    """Every value that torch's logs of some runs of a stem have whole; the last must be there.

    without   keys to leave out
    """
    with ExitStack() as stack:
        logs = []
        for run in runs:
            path = files.log(stem, "torch", run)
            if path.is_file() or run == runs[-1]:
                sums = (read_sidecar(path) or Sidecar()).sums
                logs.append((stack.enter_context(read_log(path)), frozenset((*sums, *without))))
        yield Values(logs)


def unlike(files: ResultFolder, stem: str) -> list[str]:
    """Keys of torch's half precision run that Paddle's cannot be fed: it has no such tensor.

    A model that has a module for what the other computes in its own code goes fewer operators from
    one fed value to the next, which is no precision: neither side is fed what one alone has.
    """
    paths = files.log(stem, "torch"), files.log(stem, "paddle", HALF_STEP)
    if not all(path.is_file() for path in paths):
        return []
    with read_log(paths[0]) as torch, read_log(paths[1]) as paddle:
        return sorted(k for k in torch if k not in paddle or torch.shape(k) != paddle.shape(k))
