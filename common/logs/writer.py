"""Write a log tensor by tensor: a dict of numeric arrays, as `np.save` pickles it.

    with LogWriter("forward_torch.npy") as writer:
        writer.add("logits", array)

`np.save` of a dict holds every array twice; this holds none.  Where a log grows beyond a limit, its
large tensors become a sample and sums (common/logs/sums.py), those that are there already too; of
the scores of a choice the largest stay (common/logs/leading.py); large booleans take a byte each.
NumPy only.
"""

import hashlib
import io
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.logs.key import MARGIN, PLACES, SCORES
from twincheck.common.logs.leading import can_be_led, leading_places, led
from twincheck.common.logs.pickle_machine import DTYPES, MAX_TEXT_BYTES
from twincheck.common.logs.sums import SMALLEST, can_be_summed, summed
from twincheck.common.system.errors import UserError
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.reasons import Kind

# NumPy 1.26 and 2 both know the old name of this function, and neither warns about it.
_RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"

# Memo slots of what every array needs; slots from _FIRST_DTYPE on hold one dtype each, those from
# _FIRST_ARRAY on a large array, which is stored once however many keys it has: a module's input is
# mostly another's output.
_FUNCTION, _NDARRAY, _ZERO, _B, _DTYPE_CLASS, _FIRST_DTYPE = range(6)

_FIRST_ARRAY = 256

_LARGE_BYTES = 1 << 16


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


@dataclass(frozen=True, slots=True)
class _Stored:
    """The place, dtype and shape of an array that was written whole."""

    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]


class LogWriter:
    """Write a log tensor by tensor; the file gets its name at a clean close, else it is removed.

    limit     bytes of the file beyond which large tensors are written as sums; None: there is none
    summing   whether they are from the start
    places    key -> which scores to keep of a choice; None: those that are the largest in this log
    `sha256` is the finished file's digest; `skipped` names the empty arrays, which are not stored;
    `sums` the shape of each tensor of which there are sums only, `booleans` those in a byte each,
    `places` the places of the scores that were kept.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        limit: int | None = None,
        summing: bool = False,
        places: Mapping[str, np.ndarray] | None = None,
    ):
        self.path = Path(path)
        self.limit, self.summing = limit, summing
        self._given_places = places
        self.places: dict[str, np.ndarray] = {}
        self.sha256: str | None = None
        self.skipped: list[str] = []
        self.sums: dict[str, list[int]] = {}
        self.booleans: list[str] = []
        self._booleans: list[str] = []  # in eight
        self._keys: dict[str, _Stored | None] = {}  # where its array lies; None: it is empty
        self._whole: set[str] = set()  # keys of arrays that stay whole
        self._slots: dict[str, int] = {}
        self._large: dict[tuple, tuple[int, _Stored]] = {}  # what a large array is -> its memo slot
        self._file: io.BufferedRandom | None = None

    def __enter__(self) -> "LogWriter":
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self._begin()
        return self

    def _begin(self) -> None:
        """Open the file, and write what stands before the first key."""
        self._file = open(self._temporary, "w+b")
        self._hash = hashlib.sha256()
        self._place = 0
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"
        header = header.ljust(117) + b"\n"
        self._write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        self._write(b"\x80\x04")
        self._write(_RECONSTRUCT + _put(_FUNCTION) + b"cnumpy\nndarray\n" + _put(_NDARRAY))
        self._write(b"K\x00\x85" + _put(_ZERO) + b"C\x01b" + _put(_B) + b"\x87R")
        # The 0-d envelope's state stays open on the stack: version, shape, dtype, order, [{
        self._write(b"(K\x01)cnumpy\ndtype\n" + _put(_DTYPE_CLASS) + b"0")
        self._write(_new_dtype("O8", "|", flags=63) + b"\x89]}")

    def __exit__(self, kind, error, trace) -> None:
        file, self._file = self._file, None
        try:
            if kind is None:
                self._write(b"atb.", file)
                file.close()
                os.replace(self._temporary, self.path)
                self.sha256 = self._hash.hexdigest()
        except OSError as error:  # the last bytes are written when the file is closed
            raise self._not_written(error) from None
        finally:
            with suppress(OSError):
                file.close()
            self._temporary.unlink(missing_ok=True)

    def add(self, key: str, array, whole: bool = False) -> bool:
        """Append one tensor; True if it was stored (an empty one is not).

        whole   as it is, however large it and the log are
        Raises TypeError for what is not numeric, ValueError for a key that is there already.
        """
        if self._file is None:
            raise ValueError(Kind.LOG_NOT_OPEN(key=str(key), log=self.path.name))
        if not isinstance(key, str):
            raise TypeError(Kind.LOG_KEY_NO_TEXT(type=type(key).__name__, key=repr(key)))
        if len(key.encode()) > MAX_TEXT_BYTES:
            raise ValueError(Kind.LOG_KEY_TOO_LONG(start=key[:77], most=MAX_TEXT_BYTES))
        if key in self._keys:
            raise ValueError(Kind.LOG_KEY_TWICE(key=key))
        array = np.asarray(array)
        if array.dtype.kind == "b":  # reprod_log cannot subtract booleans
            short = self.summing and not whole and array.size >= SMALLEST
            (self.booleans if short else self._booleans).append(key)
            array = array.astype(np.int8 if short else np.int64)
        if array.dtype.kind == "c":  # two floats along one more axis: real and imaginary part
            array = np.stack([array.real, array.imag], -1)
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        if code not in DTYPES:
            raise TypeError(Kind.LOG_DTYPE_NOT_NUMERIC(key=key, dtype=str(array.dtype)))
        if self.summing and not whole and key.endswith(SCORES):
            array = self._led(key, array)
        self._keys[key] = None
        if array.size == 0:
            self.skipped.append(key)
            return False
        array = np.asarray(array, array.dtype.newbyteorder("="))
        # A choice needs its scores themselves.
        may_be = can_be_summed(array) and not key.endswith((SCORES, MARGIN))
        if self.summing and not whole and may_be:
            numbers = summed(array)
            if np.isfinite(numbers).all():
                self.sums[key] = list(array.shape)
                self._keys[key] = self._store(key, numbers)
                return True
        self._keys[key] = self._store(key, contiguous(array))
        if whole:
            self._whole.add(key)
        self._keep_to_limit()
        return True

    def _led(self, key: str, scores: np.ndarray) -> np.ndarray:
        """Return a choice's scores that are kept; write their places where they are not all."""
        where = key.removesuffix(SCORES) + PLACES
        if self._given_places is not None:
            places = self._given_places.get(where)
            known = places is not None and places.shape[:-1] == scores.shape[:-1]
            if not known or places.max() >= scores.shape[-1]:
                return scores
        elif not can_be_led(scores):
            return scores
        else:
            places = leading_places(scores)
        self.places[where] = places
        self._keys[where] = self._store(where, places)
        return led(scores, places)

    def _store(self, key: str, array: np.ndarray) -> _Stored:
        """Write an array, or where in the file it lies already; returns that place."""
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        what = None
        if array.nbytes >= _LARGE_BYTES:
            what = (code, array.shape, hashlib.sha256(array).digest())
            if what in self._large:
                slot, stored = self._large[what]
                self._write(_text(key) + b"j" + struct.pack("<I", slot) + b"s")
                return stored
        self._write(_text(key) + _NEW_ARRAY + b"(K\x01(")
        self._write(b"".join(_integer(size) for size in array.shape) + b"t")
        if code in self._slots:
            self._write(_get(self._slots[code]))
        else:
            slot = self._slots[code] = _FIRST_DTYPE + len(self._slots)
            self._write(_new_dtype(code, array.dtype.str[0]) + _put(slot))
        self._write(b"\x89\x8e" + struct.pack("<Q", array.nbytes))
        stored = _Stored(self._place, array.dtype, array.shape)
        self._write(memoryview(array.reshape(-1).view(np.uint8)))
        self._write(b"tb")
        if what is not None:
            slot = _FIRST_ARRAY + len(self._large)
            self._large[what] = slot, stored
            self._write(b"r" + struct.pack("<I", slot))
        self._write(b"s")
        return stored

    @contextmanager
    def trying(self) -> Iterator[Callable[[], None]]:
        """Give what takes back all that was added inside, where the log may grow beyond its limit.

        It may be called once, as the last of what is done with the log there.
        """
        names = ("_hash", "_keys", "_slots", "_large", "places")
        names += ("skipped", "sums", "booleans", "_booleans")
        state = {name: getattr(self, name).copy() for name in names}
        place, limit, self.limit = self._place, self.limit, None

        def take_back() -> None:
            vars(self).update(state, _place=place)
            self._file.seek(place)
            self._file.truncate()

        yield take_back
        self.limit = limit
        self._keep_to_limit()

    def _keep_to_limit(self) -> None:
        """Write a log that is too long anew, with sums in the place of large tensors; go on so."""
        if self.limit is None or self.summing or self._place <= self.limit:
            return
        former, keys, self.summing = self._file, self._keys, True
        self._keys, self._slots, self._large, self.skipped = {}, {}, {}, []
        booleans, self._booleans = frozenset(self._booleans), []
        self._temporary.unlink()  # what is open stays readable
        self._begin()
        with former:
            for key, stored in keys.items():
                values = np.empty(0) if stored is None else _read(former, stored)
                values = values.astype(bool) if key in booleans else values
                self.add(key, values, key in self._whole)

    def _not_written(self, error: OSError) -> UserError:
        return UserError(Kind.LOG_NOT_WRITTEN(path=str(self.path), error=error.strerror))

    def _write(self, data: bytes | memoryview, file: io.BufferedWriter | None = None) -> None:
        try:
            (file or self._file).write(data)
        except OSError as error:
            raise self._not_written(error) from None
        self._hash.update(data)
        self._place += len(data)


def _read(file: io.BufferedRandom, stored: _Stored) -> np.ndarray:
    array = np.empty(stored.shape, stored.dtype)
    file.seek(stored.offset)
    file.readinto(memoryview(array.reshape(-1).view(np.uint8)))
    return array
