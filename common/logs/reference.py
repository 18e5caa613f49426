"""The reference's float64 values, that a run of the other side is fed with.

A log may hold sums of a large tensor; the whole tensor is then in another log of the same run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from common.logs.reader import Log, read_log
from common.logs.result_folder import FLOAT64, WHOLE, ResultFolder
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
    files: ResultFolder, stem: str, runs: Sequence[str] = (WHOLE, FLOAT64)
) -> Iterator[Values]:
    """Every value that torch's logs of some runs of a stem have whole; the last must be there."""
    with ExitStack() as stack:
        logs = []
        for run in runs:
            path = files.log(stem, "torch", run)
            if path.is_file() or run == runs[-1]:
                sums = (read_sidecar(path) or Sidecar()).sums
                logs.append((stack.enter_context(read_log(path)), frozenset(sums)))
        yield Values(logs)
