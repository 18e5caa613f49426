"""Weights that stay in their files: what --offload reads, one tensor at a time.

    work/.published/MODEL.mapped.json   {key: [file, dtype, shape, first byte]}, torch's names

A tensor's part of a file is mapped when it is asked for, and let go with the array, so that a state
larger than memory can be walked through.  NumPy only; files are mapped to be read, never written.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twincheck.common.logs.pickle_machine import Refused
from twincheck.common.system.errors import UserError
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable
from twincheck.common.weights.saved_by_torch import widened

SAFE_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|u1",
}  # fmt: skip
LONGEST_HEADER = 1 << 27


class Place(NamedTuple):
    """Where a tensor lies: its file, safetensors' word for its dtype, its shape, its first byte."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def bytes(self) -> int:
        """How long it is in the file."""
        return math.prod(self.shape) * np.dtype(SAFE_DTYPES[self.dtype]).itemsize

    def read(self) -> np.ndarray:
        """Its values: the file's own, mapped; bfloat16 as float32, which is a copy."""
        if not self.bytes:
            values = np.empty(self.shape, SAFE_DTYPES[self.dtype])
        else:
            values = np.memmap(self.file, SAFE_DTYPES[self.dtype], "r", self.start, self.shape)
        if self.dtype == "BF16":
            values = widened(values)
        return (values != 0 if self.dtype == "BOOL" else np.asarray(values)).reshape(self.shape)


class Mapped(Mapping):
    """A state whose arrays are mapped when they are asked for, and kept by nobody."""

    def __init__(self, places: Mapping[str, Place]):
        self.places = dict(places)
        self._sha256 = ""

    def __getitem__(self, key: str) -> np.ndarray:
        return self.places[key].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, key: object) -> bool:
        return key in self.places

    def only(self, sources: Mapping[str, str]) -> "Mapped":
        """A state of some of these tensors: key -> the key under which it is here."""
        return Mapped({key: self.places[source] for key, source in sources.items()})

    def sha256(self) -> str:
        """SHA-256 of all arrays; computed once."""
        if not self._sha256:
            self._sha256 = arrays_sha256(self)
        return self._sha256

    def write(self, path: Path) -> None:
        """Write where everything lies, for `read_mapped`."""
        write_json(path, {key: list(place) for key, place in self.places.items()})


def read_mapped(path: Path) -> Mapped:
    """The state that `Mapped.write` described; UserError where a file is no more what it was."""
    places = {}
    for key, (file, dtype, shape, start) in load_json(path).items():
        place = places[key] = Place(file, dtype, tuple(shape), start)
        if not os.path.isfile(file) or os.path.getsize(file) < place.start + place.bytes:
            raise UserError(Kind.MAPPED_GONE(file=file, key=printable(key)))
    return Mapped(places)


def safetensors_places(path: Path) -> tuple[dict[str, Place], Mapping[str, str]]:
    """Where a safetensors file's tensors lie, and its metadata; its header alone is read.

    Raises ValueError or Refused, in a few words, for a file that is no such thing.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, LONGEST_HEADER):
            raise ValueError(Kind.SAFETENSORS_CUT_SHORT())
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError(Kind.SAFETENSORS_NO_TABLE())
    metadata = header.pop("__metadata__", None) or {}
    places = {}
    for name, entry in header.items():
        try:
            dtype, shape = entry["dtype"], tuple(entry["shape"])
            start, end = entry["data_offsets"]
        except (TypeError, KeyError, ValueError):
            raise ValueError(Kind.SAFETENSORS_UNDESCRIBED(key=printable(name))) from None
        if dtype not in SAFE_DTYPES:
            told = {"key": printable(name), "dtype": printable(str(dtype))}
            raise Refused(Kind.SAFETENSORS_DTYPE(**told))
        if any(type(number) is not int or number < 0 for number in (*shape, start, end)):
            raise ValueError(Kind.SAFETENSORS_UNDESCRIBED(key=printable(name)))
        place = Place(str(path.absolute()), dtype, shape, 8 + length + start)
        if end - start != place.bytes or 8 + length + end > size:
            raise ValueError(Kind.SAFETENSORS_OUTSIDE(key=printable(name)))
        places[name] = place
    if sum(place.bytes for place in places.values()) != size - 8 - length:
        raise ValueError(Kind.SAFETENSORS_LENGTH())
    return places, metadata
