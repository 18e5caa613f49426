"""A safetensors file, whose header is believed only where it fits the file; NumPy only."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from twincheck.common.logs.pickle_machine import Refused
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable
from twincheck.common.weights.saved_by_torch import widened

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|u1",
}  # fmt: skip
LONGEST_HEADER = 1 << 27


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], list[str], Mapping[str, str]]:
    """Return name -> array, the names of what is bfloat16, now in float32, and the metadata.

    Arrays are the file's own, mapped to be read.  Raises ValueError or Refused, in a few words, for
    a file that is no such thing.
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
    state, wide, held = {}, [], 0
    for name, entry in header.items():
        try:
            dtype, shape = entry["dtype"], tuple(entry["shape"])
            start, end = entry["data_offsets"]
        except (TypeError, KeyError, ValueError):
            raise ValueError(Kind.SAFETENSORS_UNDESCRIBED(key=printable(name))) from None
        if dtype not in _DTYPES:
            told = {"key": printable(name), "dtype": printable(str(dtype))}
            raise Refused(Kind.SAFETENSORS_DTYPE(**told))
        if any(type(number) is not int or number < 0 for number in (*shape, start, end)):
            raise ValueError(Kind.SAFETENSORS_UNDESCRIBED(key=printable(name)))
        taken, first = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize, 8 + length
        if end - start != taken or first + end > size:
            raise ValueError(Kind.SAFETENSORS_OUTSIDE(key=printable(name)))
        held += taken
        state[name] = _mapped(path, dtype, first + start, shape)
        wide += [name] if dtype == "BF16" else []
    if held != size - 8 - length:
        raise ValueError(Kind.SAFETENSORS_LENGTH())
    return state, wide, metadata


def _mapped(path: Path, dtype: str, start: int, shape: tuple[int, ...]) -> np.ndarray:
    values = np.empty(shape, _DTYPES[dtype]) if 0 in shape else None  # which cannot be mapped
    if values is None:
        values = np.memmap(path, _DTYPES[dtype], "r", start, shape)
    if dtype == "BF16":
        values = widened(values)
    return (values != 0 if dtype == "BOOL" else np.asarray(values)).reshape(shape)
