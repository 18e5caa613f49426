"""Logs: a dict of numeric arrays as `np.save` writes it, read tensor by tensor.

    with read_log("forward_torch.npy") as log:
        log["logits"]

The reader holds one array at a time, and never executes a log
(common/logs/pickle_machine.py).  NumPy only.
"""

import ast
import io
import math
import os
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from twincheck.common.logs.pickle_machine import (
    DTYPES,
    Machine,
    Refused,
    StoredArray,
    flatten,
    stored_bytes,
)
from twincheck.common.system.errors import LogError, UserError
from twincheck.common.system.files import (
    ONE_SYNTAX_TREE,
    LastRead,
    open_plain,
    same_file,
    version_of,
)
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable

PLAIN = "array"  # the key of what is in a file that holds one plain array
_MAX_HEADER_BYTES = 1024


class Lazily(Mapping):
    """Key -> array, of some keys; each is read when it is asked for, by a function of its key."""

    def __init__(self, keys: Iterable[str], read: Callable[[str], np.ndarray]):
        self._keys, self._read = dict.fromkeys(keys), read

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self._keys:
            raise KeyError(key)
        return self._read(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class Log(Mapping):
    """A log on disk: key -> array, each read when it is asked for.  Close it, or use `with`."""

    def __init__(self, path: Path, file: io.BufferedReader, arrays: dict[str, StoredArray]):
        self.path = path
        self._file = file
        self._arrays = arrays
        self._as_opened = os.fstat(file.fileno())

    def __getitem__(self, key: str) -> np.ndarray:
        array = self._arrays[key]
        try:
            values = array.read(self._file)
        except MemoryError:
            reason = Kind.BYTES_BEYOND_MEMORY(count=array.data.count)
            raise self._error(key, reason) from None
        except Refused:
            text = array.data.as_text
            kind = Kind.LOG_DATA_NOT_AS_ANNOUNCED if text else Kind.LOG_SHORTER_MEANWHILE
            raise LogError(kind(path=str(self.path))) from None
        if not same_file(self._as_opened, self._file):
            raise self._error(key, Kind.FILE_CHANGED_MEANWHILE())
        return values

    def _error(self, key: str, reason: str) -> LogError:
        said = {"path": str(self.path), "key": printable(key), "reason": reason}
        return LogError(Kind.LOG_KEY_UNREADABLE(**said))

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: object) -> bool:
        return key in self._arrays

    def shape(self, key: str) -> tuple[int, ...]:
        """A tensor's shape, without reading it."""
        return self._arrays[key].shape

    def dtype(self, key: str) -> np.dtype:
        """A tensor's dtype in this machine's byte order, without reading it."""
        return self._arrays[key].dtype.newbyteorder("=")

    def close(self) -> None:
        """Close the file; arrays that were read stay good."""
        self._file.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *error) -> None:
        self.close()


# Where the arrays lie in the logs that were read last: a check opens each of them several times.
_indexes = LastRead()


def read_log(path: str | os.PathLike) -> Log:
    """Open a log; raises LogError with one sentence for whatever is not one.  Executes nothing."""
    path = Path(path)
    try:
        file = open_plain(path)
    except UserError as error:
        raise LogError(*error.args) from None
    try:
        about = os.fstat(file.fileno())
        size = about.st_size
        version = version_of(about)
        arrays = _indexes.get(version)
        if arrays is None:
            plain = _read_header(file, size)
            arrays = {PLAIN: plain} if plain else flatten(Machine(file, size).run(), size)
            _indexes.keep(version, arrays)
        return Log(path, file, arrays)
    except (Refused, TypeError, ValueError, OSError, MemoryError) as error:
        reason = Kind.REFUSED_ARGUMENTS()
        if isinstance(error, MemoryError):
            reason = Kind.REFUSED_MEMORY()
        elif not isinstance(error, TypeError | ValueError):
            reason = error.args[0] if isinstance(error, Refused) else str(error)
        place = Kind.AT_BYTE(byte=file.tell()) if file.tell() < size else ""
        file.close()
        raise LogError(Kind.LOG_REFUSED(path=str(path), reason=reason, place=place)) from None
    except BaseException:
        file.close()
        raise


def _read_header(file: io.BufferedReader, size: int) -> StoredArray | None:
    """Read np.save's header and stop behind it: None for a pickled dict, else its one array.

    size  of the file, in bytes; an array has to end where the file does
    """
    start = file.read(8)
    if not start:
        raise Refused(Kind.REFUSED_EMPTY())
    if start[:2] == b"PK":
        raise Refused(Kind.REFUSED_ZIP())
    if start[:6] != b"\x93NUMPY":
        raise Refused(Kind.REFUSED_NO_NPY())
    form = {(1, 0): "<H", (2, 0): "<I", (3, 0): "<I"}.get(tuple(start[6:]))
    if form is None:
        raise Refused(Kind.REFUSED_NPY_VERSION())
    field = file.read(struct.calcsize(form))
    length = struct.unpack(form, field)[0] if len(field) == struct.calcsize(form) else 0
    text = file.read(length) if length <= _MAX_HEADER_BYTES else b""
    if not length or len(text) != length:
        raise Refused(Kind.REFUSED_HEADER_LENGTH())
    try:
        # An odd literal, or a backslash, makes the parser warn.
        with ONE_SYNTAX_TREE, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            header = ast.literal_eval(text.decode("ascii").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        header = None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Refused(Kind.REFUSED_HEADER())
    if header["descr"] not in ("|O", "O"):
        return _plain(header, file.tell(), size)
    if header["shape"] != () or not isinstance(header["fortran_order"], bool):
        raise Refused(Kind.REFUSED_SHAPE_OF_OBJECTS())
    return None


def _plain(header: Mapping, offset: int, size: int) -> StoredArray:
    """The array that lies in a file from `offset` to its end."""
    named, shape = str(header["descr"]), header["shape"]
    if named[:1] not in "<>|=" or named[1:] not in DTYPES:
        raise Refused(Kind.REFUSED_PLAIN_ARRAY(dtype=printable(named)))
    if not isinstance(header["fortran_order"], bool) or not isinstance(shape, tuple):
        raise Refused(Kind.REFUSED_HEADER())
    dtype, whole = np.dtype(named), all(type(axis) is int and axis >= 0 for axis in shape)
    count = math.prod(shape) * dtype.itemsize if whole else -1
    if count != size - offset:
        raise Refused(Kind.REFUSED_ARRAY_LENGTH())
    return StoredArray(shape, dtype, header["fortran_order"], stored_bytes(offset, count))
