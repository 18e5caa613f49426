"""Read an .npz that somebody else may have made: plain numbers, no pickles, no bombs.

`np.load` is lazy and believes each member's header; here every size is known to be true before
anything of that size is made.  NumPy only.
"""

import math
import os
import zipfile
from pathlib import Path

import numpy as np

from twincheck.common.system.files import ONE_SYNTAX_TREE, open_plain, read_into
from twincheck.common.system.reasons import Kind

# Deflate can shrink zeros to a thousandth, random floats only by a tenth.  So what unpacks to more
# than MAX_RATIO times its file, and to more than a small machine can spare, is no weights file.
MAX_RATIO = 20
FREE_BYTES = 1 << 28
_MAX_HEADER_BYTES = 10_000
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: str | os.PathLike, text: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Name -> array of an .npz, or of a link to one; nothing in it is ever executed.

    text    names that may hold text instead of numbers.
    Raises ValueError for what is no such file, FileNotFoundError where there is none, UserError
    for what is no plain file.
    """
    if not Path(path).exists():
        raise FileNotFoundError(Kind.FILE_MISSING(path=str(path)))
    with open_plain(path, links=True) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _arrays(archive, os.fstat(file.fileno()).st_size, text)
        except MemoryError:
            raise ValueError(Kind.ARRAYS_BEYOND_MEMORY()) from None
        except ValueError:
            raise
        except Exception as error:  # zipfile, zlib, NumPy and the system each have their own
            reason = " ".join(str(error).split())[:200]
            told = Kind.EXCEPTION(exception=type(error).__name__, text=reason)
            raise ValueError(told) from None


def _arrays(archive: zipfile.ZipFile, file_bytes: int, text) -> dict[str, np.ndarray]:
    members = archive.infolist()
    names = [member.filename for member in members]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(Kind.NPZ_NAME_TWICE(name=ascii(twice)))
    unpacked = sum(member.file_size for member in members)
    if unpacked > max(FREE_BYTES, MAX_RATIO * file_bytes):
        raise ValueError(Kind.NPZ_UNPACKS_TO(unpacked=unpacked, packed=file_bytes))
    arrays = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name == member.filename or name.startswith("/") or ".." in name.split("/"):
            raise ValueError(Kind.NPZ_NAME_OF_NO_ARRAY(name=ascii(name)))
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(Kind.NPZ_PACKED_OTHERWISE(name=ascii(name)))
        with archive.open(member) as stream:
            arrays[name] = _array(stream, member.file_size, ascii(name), text=name in text)
    return arrays


def read_header(
    stream, stored_bytes: int, name: str, text: bool = False
) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, whether it lies in Fortran's order, dtype) of an array whose .npy begins here.

    stored_bytes  of the .npy, header and all: the header is believed only where they fit it
    text          it may hold text instead of numbers
    Raises ValueError, which says of the array `name` what is wrong.
    """
    read = _READ_HEADER.get(np.lib.format.read_magic(stream))
    if read is None:
        raise ValueError(Kind.NPY_HEADER_UNKNOWN(name=name))
    try:
        with ONE_SYNTAX_TREE:
            shape, fortran, dtype = read(stream, max_header_size=_MAX_HEADER_BYTES)
    except ValueError:  # NumPy's own words recommend allow_pickle, which would execute the file
        raise ValueError(Kind.NPY_HEADER_REFUSED(name=name)) from None
    if dtype.hasobject or dtype.kind not in ("biufU" if text else "biuf"):
        raise ValueError(Kind.NPY_NO_NUMBERS(name=name, dtype=str(dtype)[:80]))
    held = stored_bytes - stream.tell()
    bad = len(shape) > 32 or any(n < 0 for n in shape)
    if bad or math.prod(shape) * dtype.itemsize != held:
        shown = str(shape)[:200] if len(shape) <= 32 else Kind.AXES(count=len(shape))
        said = {"name": name, "held": held, "dtype": str(dtype), "shape": shown}
        raise ValueError(Kind.NPY_OF_OTHER_LENGTH(**said))
    return shape, fortran, dtype


def _array(stream, stored_bytes: int, name: str, text: bool) -> np.ndarray:
    """One member of an archive."""
    shape, fortran, dtype = read_header(stream, stored_bytes, name, text)
    flat = np.empty(math.prod(shape), dtype)
    view = memoryview(flat.view(np.uint8)) if flat.nbytes else memoryview(b"")
    if not read_into(stream, view):
        raise ValueError(Kind.NPY_CUT_OFF(name=name))
    if stream.read(1):  # its end also checks the member's sum
        raise ValueError(Kind.NPY_TOO_LONG(name=name))
    return flat.reshape(shape, order="F" if fortran else "C")
