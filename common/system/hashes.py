"""SHA-256 of files and of named arrays."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from common.system.files import open_plain


def file_sha256(path: str | os.PathLike) -> str:
    """SHA-256 of a file's bytes."""
    with open_plain(Path(path)) as file:
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
