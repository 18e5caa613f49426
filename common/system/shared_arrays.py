"""Named groups of arrays in one file that several processes map, without zip and without disk.

    with shared_file() as address:       the check's process: a file of memory, its own
        append(address, "main", arrays)  any process: behind what is there
        read(address, "main")            any process: views of the file, read-only

The file is of memory (memfd_create) and has no name: it is gone when the process that made it and
those that map it have ended, however they ended.  An address names the file and what it must begin
with, so that a number that another process has since got leads to nobody else's.

A file is a line that says what it is, then groups, each at a multiple of a page:

    head     16 bytes: how long the description is, and the group without the head's page; it is
             written last, so that a group counts only when all of it is there
    page 1   the description, JSON: {"name": …, "arrays": {key: [dtype, shape, offset]}}; offsets
             count from where the description begins
    arrays   each at a multiple of 64 bytes
"""

import json
import math
import mmap
import os
import secrets
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np

from twincheck.common.system.reasons import Kind

_PAGE = max(mmap.ALLOCATIONGRANULARITY, 4096)
_ALIGNED = 64
_KIND = b"arrays of the alignment workbench "
_HEAD = struct.Struct("<QQ")
_MOST_AXES = 32
_LONGEST_WRITE = 1 << 30  # a system call takes no more than 2 GB


@contextmanager
def shared_file() -> Iterator[str]:
    """Make a file for `append` and `read`; gives its address, also for other processes."""
    token = secrets.token_hex(12)
    file = os.memfd_create("alignment-workbench", os.MFD_CLOEXEC)
    try:
        _write(file, _first_line(token), 0)
        yield f"/proc/{os.getpid()}/fd/{file}#{token}"
    finally:
        os.close(file)  # it is gone when nobody maps it any more


def append(address: str, name: str, arrays: Mapping[str, np.ndarray]) -> bool:
    """Put a group of arrays behind those that are there; it counts instead of a former one.

    An array under several keys is written once.  One process at a time may write.  False, and
    nothing has changed, where the file is not there or takes no more.
    """
    offsets: dict[tuple, int] = {}
    table: dict[str, list] = {}
    laid_out: list[tuple[int, np.ndarray]] = []
    end = 0
    for key, values in arrays.items():
        values = np.asarray(values)
        values = np.asarray(values, values.dtype.newbyteorder("<"))
        same = values.__array_interface__["data"][0], values.shape, values.strides, values.dtype.str
        if same not in offsets:
            offsets[same] = end
            laid_out.append((end, values))
            end = _up(end + values.nbytes, _ALIGNED)
        table[key] = [values.dtype.str, list(values.shape), offsets[same]]
    # Offsets count from behind the description here: it would change its own length otherwise.
    text = json.dumps({"name": name, "arrays": table}).encode()
    first = _up(len(text), _ALIGNED)
    with _opened(address, os.O_RDWR) as file:
        if file is None:
            return False
        start = _end(file)
        with suppress(OSError):
            os.ftruncate(file, start + _PAGE + _up(first + end, _PAGE))
            _write(file, text, start + _PAGE)
            for offset, values in laid_out:
                _write(file, _bytes(values), start + _PAGE + first + offset)
            _write(file, _HEAD.pack(len(text), first + end), start)
            return True
        os.ftruncate(file, start)
        return False


def read(address: str, name: str) -> dict[str, np.ndarray] | None:
    """The newest group of a name as views of the file, read-only; None where there is none.

    Raises ValueError, in a few words, for a group that is no such thing.
    """
    found = None
    with _opened(address, os.O_RDONLY) as file:
        if file is None:
            return None
        for start, text_bytes, size in _groups(file):
            text = os.pread(file, text_bytes, start)
            try:
                group = json.loads(text)
                own, table = group["name"], dict(group["arrays"])
            except (ValueError, TypeError, KeyError):
                raise ValueError(Kind.SHARED_GROUP_UNDESCRIBED()) from None
            if own == name:
                found = start, _up(text_bytes, _ALIGNED), size, table
        if found is None:
            return None
        start, first, size, table = found
        mapped = mmap.mmap(file, size, access=mmap.ACCESS_READ, offset=start) if size else b""
    return {key: _view(mapped, first, size, key, entry) for key, entry in table.items()}


def _view(mapped, first: int, size: int, key: str, entry: object) -> np.ndarray:
    """One array of a group; what its entry says is believed only where it fits."""
    try:
        code, shape, offset = entry
        dtype = np.dtype(str(code))
        shape = tuple(int(length) for length in shape)
        count, offset = math.prod(shape), int(offset)
    except (ValueError, TypeError):
        raise ValueError(Kind.SHARED_ARRAY_UNDESCRIBED(key=key)) from None
    fits = dtype.kind in "biuf" and len(shape) <= _MOST_AXES and min((0, offset, *shape)) == 0
    if not fits or first + offset + count * dtype.itemsize > size:
        raise ValueError(Kind.SHARED_ARRAY_OUTSIDE(key=key))
    return np.frombuffer(mapped, dtype, count, first + offset).reshape(shape)


@contextmanager
def _opened(address: str, flags: int) -> Iterator[int | None]:
    """The file of an address; None where it is not there, or is not what it was."""
    path, _, token = address.rpartition("#")
    try:
        file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        yield None
        return
    try:
        line = _first_line(token)
        plain = stat.S_ISREG(os.fstat(file).st_mode)
        yield file if plain and os.pread(file, len(line), 0) == line else None
    finally:
        os.close(file)


def _first_line(token: str) -> bytes:
    return _KIND + token.encode() + b"\n"


def _groups(file: int) -> Iterator[tuple[int, int, int]]:
    """(where its description begins, how long that is, how long it is with its arrays) of each."""
    length = os.fstat(file).st_size
    start = _PAGE
    while start + _HEAD.size <= length:
        text_bytes, size = _HEAD.unpack(os.pread(file, _HEAD.size, start))
        if not size:
            return  # it was never finished
        if text_bytes > size or start + _PAGE + size > length:
            raise ValueError(Kind.SHARED_CUT_SHORT())
        yield start + _PAGE, text_bytes, size
        start += _PAGE + _up(size, _PAGE)


def _end(file: int) -> int:
    """Where the next group begins."""
    end = _PAGE
    for start, _, size in _groups(file):
        end = start + _up(size, _PAGE)
    return end


def _bytes(values: np.ndarray) -> memoryview:
    flat = np.ascontiguousarray(values).reshape(-1)
    return memoryview(flat.view(np.uint8)) if flat.nbytes else memoryview(b"")


def _write(file: int, content: bytes | memoryview, place: int) -> None:
    rest = memoryview(content)
    while rest:
        done = os.pwrite(file, rest[:_LONGEST_WRITE], place)
        rest, place = rest[done:], place + done


def _up(number: int, to: int) -> int:
    """The next multiple."""
    return -(-number // to) * to
