"""What fed what, for the page: which earlier values a module was given, as torch's log shows it.

An input has the bits of the value that it is, or of the sum of two, as after a residual; one that
is made of others in another way has no such value.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import combinations

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.reader import Log, read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.report.html_facts import UNREADABLE
from twincheck.common.report.html_words import visible
from twincheck.common.system.run_kind import RunKind

MOST_ELEMENTS = 20_000_000  # that are read of a result
LAST = 6  # values of one shape that may have been added


def flow_of(result, indices: Sequence[int]) -> dict[int, list[str]]:
    """Position of an input among the rows -> the keys of what it is: one value, or two added."""
    cases = tuple(result.cases)
    keys = [Key.parse(result.rows[i].key, cases) for i in indices]
    passing = {str(k): (n, k) for n, k in enumerate(keys) if not (k.kind or k.choice or k.run)}
    if not any(key.is_input for _, key in passing.values()):
        return {}
    files, found = ResultFolder(result.folder), {}
    for stem in result.step.judged:
        logs = [files.log(stem, "torch", run) for run in (RunKind.FLOAT64, RunKind.PLAIN)]
        for path in [path for path in logs if path.is_file()][:1]:
            with suppress(*UNREADABLE), read_log(path) as log:
                for key, sources in _fed(log, [key for _, key in passing.values()]):
                    found[passing[str(key)][0]] = [visible(source) for source in sources]
    return found


def _fed(log: Log, keys: Collection[Key]) -> Iterator[tuple[Key, list[str]]]:
    """(input, names of what it is), in the order of the forward pass; names are of their case."""
    left, case = MOST_ELEMENTS, None
    for key in (key for key in keys if str(key) in log):
        if key.case != case:
            case, known, last = key.case, {}, defaultdict(dict)
        values = np.ascontiguousarray(log[str(key)])
        left -= values.size
        if left < 0:
            return
        if values.dtype.kind != "f" or values.size < 2:  # of few values chance makes some alike
            continue
        bits = blake2b(values, digest_size=16).digest()
        if key.is_input:
            sources = [known[bits]] if bits in known else _added(values, last[values.shape])
            if sources:
                yield key, sources
        if not key.is_input or bits not in known:
            known[bits] = str(key)[len(key.case) :]
        recent = last[values.shape]
        recent.pop(known[bits], None)  # given again, it may be added next
        recent[known[bits]] = values
        if len(recent) > LAST:
            del recent[next(iter(recent))]


def _added(values: np.ndarray, earlier: Mapping[str, np.ndarray]) -> list[str]:
    """The two earlier values whose sum this is, bit for bit; none where there are no such."""
    for (one, first), (other, second) in combinations(reversed(earlier.items()), 2):
        near = first.flat[0] + second.flat[0] == values.flat[0]
        if near and (first + second == values).all():
            return [other, one]
    return []
