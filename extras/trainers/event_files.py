"""Scalars of TensorBoard's event files and VisualDL's record files, without either library.

Both are protocol buffers one behind the other:

    TensorBoard  uint64 length, uint32 sum of it, an Event, uint32 sum of that
                 Event: step 2; summary 5 { value 1 { tag 1, simple_value 2, tensor 8 } }
                 tensor: type 1, shape 2, bytes 4, floats 5, doubles 6
    VisualDL     uint64 length, a Record { values 1 { id 1, tag 2, value 4 } }; or with sums

What is cut off at the end, as of a trainer that still writes, is left out.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.extras.trainers import Kind

MAX_RECORD = 1 << 28  # bytes: an image is one, too; more is no such file


def scalars(path: Path, visualdl: bool) -> Iterator[tuple[str, int, float]]:
    """(tag, step, value) of every scalar, in the file's order; UserError for another file."""
    read = _of_record if visualdl else _of_event
    try:
        for content in _records(path, visualdl):
            yield from read(content)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError):
        none = Kind.NO_VISUALDL if visualdl else Kind.NO_TENSORBOARD
        raise UserError(none(path=str(path))) from None


def _records(path: Path, visualdl: bool) -> Iterator[memoryview]:
    with open_plain(path, links=True) as file:
        start = file.read(13)
        # A record begins with a field of bytes, 0x0a; the sum of a length is seldom that.
        has_sums = not visualdl or start[8:9] != b"\x0a"
        file.seek(0)
        while len(head := file.read(12 if has_sums else 8)) >= 8:
            (length,) = struct.unpack_from("<Q", head)
            if length > MAX_RECORD:
                raise ValueError
            content = file.read(length)
            if len(content) < length:
                return
            yield memoryview(content)
            if has_sums:
                file.read(4)


def _of_event(event: memoryview) -> Iterator[tuple[str, int, float]]:
    step, summaries = 0, []
    for number, value in _fields(event):
        if number == 2:
            step = value
        elif number == 5:
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number != 1:
                continue
            parts = dict(_fields(value))
            if 1 in parts and 2 in parts and isinstance(parts[2], float):
                yield bytes(parts[1]).decode(), step, parts[2]
            elif 1 in parts and 8 in parts:
                yield from ((bytes(parts[1]).decode(), step, v) for v in _of_tensor(parts[8]))


def _of_tensor(tensor: memoryview) -> list[float]:
    """The value of a tensor of one float32 or float64; none of another."""
    parts = dict(_fields(tensor))
    letter = {1: "f", 2: "d"}.get(parts.get(1))
    for number in (4, 5, 6):
        content = parts.get(number)
        if isinstance(content, float):
            return [content]
        if letter and content is not None and len(content) == struct.calcsize(letter):
            return [struct.unpack(f"<{letter}", content)[0]]
    return []


def _of_record(record: memoryview) -> Iterator[tuple[str, int, float]]:
    for number, value in _fields(record):
        if number == 1:
            parts = dict(_fields(value))
            if 2 in parts and isinstance(parts.get(4), float):
                yield bytes(parts[2]).decode(), parts.get(1, 0), parts[4]


def _fields(message: memoryview) -> Iterator[tuple[int, object]]:
    """(number, value) of every field: an integer, a float, or the bytes of what it holds."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            value -= 1 << 64 if value >= 1 << 63 else 0
        elif kind in (1, 5):
            letter, size = ("d", 8) if kind == 1 else ("f", 4)
            value = struct.unpack_from(f"<{letter}", message, at)[0]
            at += size
        elif kind == 2:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
            if len(value) < length:
                raise ValueError
        else:
            raise ValueError
        yield key >> 3, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError
