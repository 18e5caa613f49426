"""The reference's float64 values, that a run of the other side is fed with.

A log may hold sums of a large tensor; the whole tensor is then in another log of the same run.

Two people who write one model may mean other things by a name: one's mask says what is padding, the
other's what is seen; one has channels last.  So a value is fed only where the other side's run that
was fed nothing shows no such thing (`TeacherValues`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.match import likeness, same_elements
from twincheck.common.logs.reader import Lazily, Log, read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.system.run_kind import RunKind


class TeacherValues(Mapping):
    """The reference's values as the other side can be fed them, in its own arrangement.

    values    the reference's
    own       the other side's, of a run that was fed nothing
    inside    keys of values inside the model; all others are fed as they are
    left_out  keys that were asked for, whose values mean something else there
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        own: Mapping[str, np.ndarray],
        inside: Collection[str],
    ):
        self._values, self._own, self._inside = values, own, inside
        self.left_out: set[str] = set()

    def __getitem__(self, key: str) -> np.ndarray:
        value = self._values[key]
        if key not in self._inside or key not in self._own:
            return value
        arranged = self._arranged(key, value, self._own[key])
        if arranged is None:
            self.left_out.add(key)
            raise KeyError(key)
        return arranged

    def tried(self, key: str) -> np.ndarray | None:
        """Return torch's value to try at a key: as it is where its shape fits, else as `get` does.

        None where the other side has nothing of that kind.
        """
        value, own = self._values.get(key), self._own.get(key)
        if value is None or own is None or _kind(value) != _kind(own):
            return None
        return value if value.shape == own.shape else self.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _arranged(self, key: str, value: np.ndarray, own: np.ndarray) -> np.ndarray | None:
        """A value as `own` is arranged; None where it means something else."""
        if _kind(value) != _kind(own):
            return None
        alike = likeness(value, own)
        if alike is not None and alike.turned:
            # A wrong order of axes is a fault, and is not to be fed back: what comes of it is off.
            wrong = alike.same and value.shape == own.shape and not self._comes_out_alike(key)
            return value if wrong else alike.back(value)
        if value.shape != own.shape or _another_mask(value, own) or same_elements(value, own):
            return None
        return value

    def _comes_out_alike(self, key: str) -> bool:
        """Return whether the first output of the module given this value is alike on both sides."""
        key = Key.parse(key).output
        if key not in self._values or key not in self._own:
            return False
        alike = likeness(self._values[key], self._own[key])
        return alike is not None and alike.same


def _kind(array: np.ndarray) -> str:
    """Return an array's kind as a letter: f for floats, i for integers and booleans, or another."""
    return array.dtype.kind.translate(str.maketrans("ub", "ii"))


def _another_mask(value: np.ndarray, own: np.ndarray) -> bool:
    """True for masks that are not written alike: other numbers, or most places the other way."""
    if own.size <= 2:
        return False
    ends = []
    for array in (value, own):
        low, high = array.min(), array.max()
        if low == high or not ((array == low) | (array == high)).all():
            return False
        ends.append((low, high))
    return ends[0] != ends[1] or np.mean(value == own) < 0.5


@contextmanager
def reference_values(
    files: ResultFolder,
    stem: str,
    runs: Sequence[str] = (RunKind.WHOLE, RunKind.FLOAT64),
    without: Collection[str] = (),
    side: str = "torch",
) -> Iterator[Mapping[str, np.ndarray]]:
    """Every value that a side's logs of some runs of a stem have whole; the last must be there.

    without   keys to leave out
    """
    with ExitStack() as stack:
        log_of: dict[str, Log] = {}
        for run in runs:
            path = files.log(stem, side, run)
            if path.is_file() or run == runs[-1]:
                log = stack.enter_context(read_log(path))
                left_out = {*sidecar_of(path).sums, *without}
                for key in log:
                    if key not in left_out:
                        log_of.setdefault(key, log)
        yield Lazily(log_of, lambda key: log_of[key][key])


@contextmanager
def teacher_values(files: ResultFolder, stem: str) -> Iterator[TeacherValues]:
    """Open torch's values that a float64 run of the Paddle side can be fed."""
    own = reference_values(files, stem, (RunKind.FLOAT64,), side="paddle")
    told = sidecar_of(files.log(stem, "paddle", RunKind.FLOAT64))
    inside = {} if told.built_in else told.classes  # twins mean the same, line by line
    with reference_values(files, stem) as values, own as others:
        yield TeacherValues(values, others, inside)


def unlike(files: ResultFolder, stem: str) -> list[str]:
    """Keys of torch's half precision run that Paddle's cannot be fed: it has no such tensor.

    A model that has a module for what the other computes in its own code goes fewer operators from
    one fed value to the next, which is no precision: neither side is fed what one alone has.
    """
    paths = files.log(stem, "torch"), files.log(stem, "paddle", RunKind.HALF_STEP)
    if not all(path.is_file() for path in paths):
        return []
    with read_log(paths[0]) as torch, read_log(paths[1]) as paddle:
        return sorted(k for k in torch if k not in paddle or torch.shape(k) != paddle.shape(k))
