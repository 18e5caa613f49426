"""SHA-256 of files and of named arrays; whether two arrays are the same to the bit."""

import hashlib
import os
from collections.abc import Mapping

import numpy as np

from twincheck.common.system.files import open_plain


def file_sha256(path: str | os.PathLike, links: bool = False) -> str:
    """SHA-256 of a file's bytes; of the file behind a symbolic link where `links` allows one."""
    digest = hashlib.sha256()
    with open_plain(path, links) as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def arrays_sha256(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of named arrays: keys in order, and of each its dtype, shape and values."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = np.asarray(arrays[key])
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        digest.update(f"{len(key)} {key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(memoryview(array.reshape(-1).view(np.uint8)))
    return digest.hexdigest()


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """True for arrays of one dtype and shape that hold the same bits, signs of zeros included."""
    kind = f"u{one.dtype.itemsize}"
    alike = (one.dtype, one.shape) == (other.dtype, other.shape)
    return alike and np.array_equal(one.reshape(-1).view(kind), other.reshape(-1).view(kind))
