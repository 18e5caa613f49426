"""Logs: a dict of numeric arrays as `np.save` writes it, written and read tensor by tensor.

    with LogWriter("forward_torch.npy") as writer:
        writer.add("logits", array)
    with read_log("forward_torch.npy") as log:
        log["logits"]

`np.save` of a dict holds every array twice; LogWriter holds none and the reader one at a time.
Reading never executes a log (common/unpickle.py).  NumPy only.
"""

import ast
import hashlib
import io
import json
import os
import struct
import time
import warnings
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from common.errors import UserError
from common.files import open_plain, same_file, whole
from common.json_file import load_json
from common.sidecars import check_entries
from common.unpickle import (
    DTYPES,
    MAX_TEXT_BYTES,
    Machine,
    Refused,
    StoredArray,
    flatten,
    printable,
)

_MAX_HEADER_BYTES = 1024


class LogError(UserError):
    """A file that is no log, in one sentence with the file's name and what was found in it."""


# ---- writing ------------------------------------------------------------------------------------

# NumPy 1.26 and 2 both know the old name of this function, and neither warns about it.
_RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
# Memo slots of what every array needs; slots from _FIRST_DTYPE on hold one dtype each, those from
# _FIRST_ARRAY on a large array, which is stored once however many keys it has: a module's input is
# mostly another's output.
_FUNCTION, _NDARRAY, _ZERO, _B, _DTYPE_CLASS, _FIRST_DTYPE = range(6)
_FIRST_ARRAY = 256
_LARGE_BYTES = 1 << 16
_KEPT_BYTES = 1 << 27  # of such arrays, while a log is read


def _get(slot: int) -> bytes:
    return b"h" + bytes([slot])


def _put(slot: int) -> bytes:
    return b"q" + bytes([slot])


_NEW_ARRAY = _get(_FUNCTION) + _get(_NDARRAY) + _get(_ZERO) + _get(_B) + b"\x87R"


def _text(text: str) -> bytes:
    encoded = text.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def _integer(value: int) -> bytes:
    if value < 256:
        return b"K" + bytes([value])
    if value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _new_dtype(code: str, order: str, flags: int = 0) -> bytes:
    """Opcodes that leave a new dtype on the stack."""
    state = b"(K\x03" + _text(order) + b"NNN" + b"J\xff\xff\xff\xff" * 2 + _integer(flags) + b"t"
    return _get(_DTYPE_CLASS) + _text(code) + b"\x89\x88\x87R" + state + b"b"


class LogWriter:
    """Write a log tensor by tensor; the file gets its name at a clean close, else it is removed.

    `sha256` is the finished file's digest; `skipped` names the empty arrays, which are not stored.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.sha256: str | None = None
        self.skipped: list[str] = []
        self._keys: set[str] = set()
        self._slots: dict[str, int] = {}
        self._large: dict[tuple, int] = {}  # what a large array is -> its memo slot
        self._file: io.BufferedWriter | None = None

    def __enter__(self) -> "LogWriter":
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self._file = open(self._temporary, "wb")
        self._hash = hashlib.sha256()
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"
        header = header.ljust(117) + b"\n"
        self._write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        self._write(b"\x80\x04")
        self._write(_RECONSTRUCT + _put(_FUNCTION) + b"cnumpy\nndarray\n" + _put(_NDARRAY))
        self._write(b"K\x00\x85" + _put(_ZERO) + b"C\x01b" + _put(_B) + b"\x87R")
        # The 0-d envelope's state stays open on the stack: version, shape, dtype, order, [{
        self._write(b"(K\x01)cnumpy\ndtype\n" + _put(_DTYPE_CLASS) + b"0")
        self._write(_new_dtype("O8", "|", flags=63) + b"\x89]}")
        return self

    def __exit__(self, kind, error, trace) -> None:
        file, self._file = self._file, None
        try:
            if kind is None:
                self._write(b"atb.", file)
                file.close()
                os.replace(self._temporary, self.path)
                self.sha256 = self._hash.hexdigest()
        except OSError as error:  # the last bytes are written when the file is closed
            raise UserError(f"{self.path} cannot be written: {error.strerror}") from None
        finally:
            with suppress(OSError):
                file.close()
            self._temporary.unlink(missing_ok=True)

    def add(self, key: str, array) -> bool:
        """Append one tensor; True if it was stored (an empty one is not).

        Raises TypeError for what is not numeric, ValueError for a key that is there already.
        """
        if self._file is None:
            raise ValueError(f"{key}: the log {self.path.name} is not open for writing")
        if not isinstance(key, str):
            raise TypeError(f"a log's keys are text, not {type(key).__name__}: {key!r}")
        if len(key.encode()) > MAX_TEXT_BYTES:
            raise ValueError(f"{key[:77]}...: a log's keys have at most {MAX_TEXT_BYTES} bytes")
        if key in self._keys:
            raise ValueError(f"{key}: this key is in the log already")
        array = np.asarray(array)
        if array.dtype.kind == "b":
            array = array.astype(np.int64)  # reprod_log cannot subtract booleans
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        if code not in DTYPES:
            raise TypeError(f"{key}: a log holds numeric arrays, not {array.dtype}")
        self._keys.add(key)
        if array.size == 0:
            self.skipped.append(key)
            return False
        array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
        what = None
        if array.nbytes >= _LARGE_BYTES:
            what = (code, array.shape, hashlib.sha256(array).digest())
            if what in self._large:
                self._write(_text(key) + b"j" + struct.pack("<I", self._large[what]) + b"s")
                return True
        self._write(_text(key) + _NEW_ARRAY + b"(K\x01(")
        self._write(b"".join(_integer(size) for size in array.shape) + b"t")
        if code in self._slots:
            self._write(_get(self._slots[code]))
        else:
            slot = self._slots[code] = _FIRST_DTYPE + len(self._slots)
            self._write(_new_dtype(code, array.dtype.str[0]) + _put(slot))
        self._write(b"\x89\x8e" + struct.pack("<Q", array.nbytes))
        self._write(memoryview(array.reshape(-1).view(np.uint8)))
        self._write(b"tb")
        if what is not None:
            slot = self._large[what] = _FIRST_ARRAY + len(self._large)
            self._write(b"r" + struct.pack("<I", slot))
        self._write(b"s")
        return True

    def _write(self, data: bytes | memoryview, file: io.BufferedWriter | None = None) -> None:
        try:
            (file or self._file).write(data)
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror}") from None
        self._hash.update(data)


# ---- reading ------------------------------------------------------------------------------------


class Log(Mapping):
    """A log on disk: key -> array, each read when it is asked for.  Close it, or use `with`."""

    def __init__(self, path: Path, file: io.BufferedReader, arrays: dict[str, StoredArray]):
        self.path = path
        self._file = file
        self._arrays = arrays
        counts = Counter(arrays.values())
        self._shared = {array for array, count in counts.items() if count > 1}
        self._as_opened = os.fstat(file.fileno())
        self._kept: OrderedDict[StoredArray, np.ndarray] = OrderedDict()  # those read last

    def __getitem__(self, key: str) -> np.ndarray:
        array = self._arrays[key]
        if array in self._kept:
            return self._kept[array].view()
        try:
            flat = self._read(array)
            if not array.dtype.isnative:
                flat = flat.astype(array.dtype.newbyteorder("="))
        except MemoryError:
            raise self._error(key, f"{array.data.count:,} bytes do not fit into memory") from None
        if not same_file(self._as_opened, self._file):
            raise self._error(key, "the file was written to while it was read")
        values = flat.reshape(array.shape, order="F" if array.fortran else "C")
        self._keep(array, values)
        return values

    def _keep(self, array: StoredArray, values: np.ndarray) -> None:
        """An array that has several keys is asked for again soon."""
        if array not in self._shared:
            return
        values.flags.writeable = False
        self._kept[array] = values
        while sum(kept.nbytes for kept in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    def _read(self, array: StoredArray) -> np.ndarray:
        """An array's values, flat; what is not read in full is found out by the caller."""
        data = array.data
        self._file.seek(data.offset)
        if data.as_text:
            try:
                stored = self._file.read(data.stored).decode().encode("latin1")
                return np.frombuffer(stored, array.dtype).copy()
            except ValueError:
                raise LogError(f"{self.path}: its data is not what was announced") from None
        flat = np.empty(data.count // array.dtype.itemsize, array.dtype)
        if self._file.readinto(memoryview(flat.view(np.uint8))) != data.count:
            raise LogError(f"{self.path}: the file became shorter while it was read")
        return flat

    def _error(self, key: str, found: str) -> LogError:
        return LogError(f"{self.path}: {printable(key)}: {found}")

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
_indexes: dict[tuple[int, ...], dict[str, StoredArray]] = {}
_KEPT_INDEXES = 8
_SETTLED_NS = 10**8  # a younger file may change once more within one tick of the clock


def read_log(path: str | os.PathLike) -> Log:
    """Open a log; raises LogError with one sentence for whatever is not one.  Executes nothing."""
    path = Path(path)
    file = _open_plain(path)
    try:
        about = os.fstat(file.fileno())
        size = about.st_size
        version = (about.st_dev, about.st_ino, size, about.st_mtime_ns, about.st_ctime_ns)
        arrays = _indexes.get(version)
        if arrays is None:
            _read_header(file)
            arrays = flatten(Machine(file, size).run(), size)
            if time.time_ns() - about.st_ctime_ns > _SETTLED_NS:
                while len(_indexes) >= _KEPT_INDEXES:
                    _indexes.pop(next(iter(_indexes)))
                _indexes[version] = arrays
        return Log(path, file, arrays)
    except (Refused, TypeError, ValueError, OSError, MemoryError) as error:
        found = "a call with other arguments than NumPy's"
        if isinstance(error, MemoryError):
            found = "more values than fit into memory"
        elif not isinstance(error, TypeError | ValueError):
            found = error
        place = f" at byte {file.tell()}" if file.tell() < size else ""
        file.close()
        raise LogError(
            f"{path}: refused: {found}{place}; a log holds only a dict of numeric arrays"
        ) from None
    except BaseException:
        file.close()
        raise


def _open_plain(path: Path) -> io.BufferedReader:
    try:
        return open_plain(path)
    except UserError as error:
        raise LogError(str(error)) from None


def _read_header(file: io.BufferedReader) -> None:
    """Check np.save's header of a pickled 0-d object array, and stop behind it."""
    start = file.read(8)
    if not start:
        raise Refused("an empty file")
    if start[:2] == b"PK":
        raise Refused("a zip archive (.npz)")
    if start[:6] != b"\x93NUMPY":
        raise Refused("no .npy file")
    form = {(1, 0): "<H", (2, 0): "<I", (3, 0): "<I"}.get(tuple(start[6:]))
    if form is None:
        raise Refused("a .npy version that NumPy does not write")
    field = file.read(struct.calcsize(form))
    length = struct.unpack(form, field)[0] if len(field) == struct.calcsize(form) else 0
    text = file.read(length) if length <= _MAX_HEADER_BYTES else b""
    if not length or len(text) != length:
        raise Refused("a .npy header that is too long or cut off")
    try:
        with warnings.catch_warnings():  # an odd literal, or a backslash, makes the parser warn
            warnings.simplefilter("ignore")
            header = ast.literal_eval(text.decode("ascii").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        header = None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Refused("a .npy header that NumPy does not write")
    if header["descr"] not in ("|O", "O"):
        raise Refused(f"one plain array ({printable(str(header['descr']))})")
    if header["shape"] != () or not isinstance(header["fortran_order"], bool):
        raise Refused("an array of objects with a shape of its own")


# ---- hashes and sidecars ------------------------------------------------------------------------


def file_sha256(path: str | os.PathLike) -> str:
    """SHA-256 of a file's bytes."""
    with _open_plain(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arrays_sha256(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of named arrays: keys in order, and of each its dtype, shape and values."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = np.asarray(arrays[key])
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        digest.update(f"{len(key)} {key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(memoryview(array.reshape(-1).view(np.uint8)))
    return digest.hexdigest()


def sidecar_path(log_path: str | os.PathLike) -> Path:
    """Where a log's sidecar is: the same stem, .json."""
    return Path(log_path).with_suffix(".json")


def write_sidecar(log_path: str | os.PathLike, sidecar: Mapping[str, object]) -> Path:
    """Write who made a log beside it."""
    path = sidecar_path(log_path)
    write_json(path, sidecar)
    return path


def write_json(path: str | os.PathLike, value: object) -> None:
    """Write JSON under a name that appears only when all of it is there; NaN is an error."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_sidecar(log_path: str | os.PathLike) -> dict | None:
    """What a log's sidecar says, None where there is none.

    Raises LogError where it cannot be read, or says something of another type than it should.
    """
    path = sidecar_path(log_path)
    if not os.path.lexists(path):
        return None
    try:
        sidecar = load_json(path)
        check_entries(sidecar, path)
    except UserError as error:
        raise LogError(f"this sidecar cannot be read: {error}") from None
    return {entry: value for entry, value in sidecar.items() if value is not None}
