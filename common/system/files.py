"""Files that appear whole or not at all, and files of others that are opened with care."""

import io
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind

# A file with holes (a sparse file) can be far longer than what is stored of it: reading it would
# take for ever.
_HOLES_FROM_BYTES = 1 << 30
_HOLES_RATIO = 16

_SETTLED_NS = 10**8

# Held by whoever makes a syntax tree, which reading an array's header does too: where two threads
# make one at a time, some of CPython 3.11 and 3.12 raise SystemError (python/cpython#106905).
ONE_SYNTAX_TREE = threading.Lock()


@contextmanager
def whole(path: str | os.PathLike) -> Iterator[Path]:
    """A name beside `path` to write to; renamed to it at the end, removed where that fails.

    A link stays, and the file that it points to is replaced.  A device or a pipe, such as
    /dev/stdout, is written to directly: a file renamed over it would remove it for everybody.
    """
    path = Path(path)
    special = str(path).startswith(("/dev/", "/proc/"))
    if special or (path.exists() and not path.is_file() and not path.is_dir()):
        yield path
        return
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:  # a full disk does not say which file it could not take
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file all or nothing; raises UserError where its folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(Kind.FILE_UNWRITABLE(path=str(path), reason=error.strerror)) from None


def link_or_copy(path: str | os.PathLike, place: str | os.PathLike) -> None:
    """Give a file a second name where the system can, else a copy; for files nobody changes."""
    try:
        os.link(path, place)
    except OSError:
        shutil.copy2(path, place)


def open_plain(path: str | os.PathLike, links: bool = False) -> io.BufferedReader:
    """Open a regular file for reading, without waiting for a pipe's other end.

    links   whether a symbolic link is followed; a log may not be one, since changing what it points
            to changes what was judged.
    Raises UserError, in one sentence with the path, for whatever cannot be read or is no file.
    """
    path = Path(path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        if not links and path.is_symlink():
            raise UserError(Kind.FILE_IS_LINK(path=str(path)))
        descriptor = os.open(path, flags)
    except OSError as error:
        raise UserError(Kind.FILE_UNOPENED(path=str(path), reason=error.strerror)) from None
    except ValueError as error:  # a zero byte in the name
        raise UserError(Kind.FILE_UNOPENED(path=str(path), reason=str(error))) from None
    status = os.fstat(descriptor)
    problem = "" if stat.S_ISREG(status.st_mode) else Kind.FILE_NOT_PLAIN(path=str(path))
    stored = status.st_blocks * 512  # 0 where a file system does not say
    if status.st_size > _HOLES_FROM_BYTES and 0 < stored < status.st_size // _HOLES_RATIO:
        problem = Kind.FILE_SPARSE(path=str(path), count=status.st_size, stored=stored)
    if problem:
        os.close(descriptor)
        raise UserError(problem)
    return os.fdopen(descriptor, "rb")


def read_into(stream: io.BufferedIOBase, buffer: memoryview) -> bool:
    """Read bytes until the buffer is full; False where the stream ends before."""
    done = 0
    while done < len(buffer):
        count = stream.readinto(buffer[done:])
        if not count:
            return False
        done += count
    return True


def fill_standard_streams() -> None:
    """Make standard streams that can be written to, whatever this process was started with.

    Where one is closed, the next file that is opened would get its descriptor, and what is printed
    would be written into that file.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if name == "stdout" and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may know few characters
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))


def version_of(about: os.stat_result) -> tuple[int, ...] | None:
    """Return what changes whenever a file is written to: device, inode, size and times (ns).

    None where the file is so young that it may change once more within one tick of the clock.
    """
    if time.time_ns() - about.st_ctime_ns <= _SETTLED_NS:
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


class LastRead(dict):
    """Keep what was read of the last 192 files by their `version_of`; the oldest goes first.

    Of a whole make check, which asks for each of its 157 logs several times, the places of arrays
    in the logs are 70 MB, and the sidecars 55.
    """

    def keep(self, version: tuple[int, ...] | None, content: object) -> None:
        """Keep a file's content, unless its version is not known."""
        if version is not None:
            while len(self) >= 192:
                self.pop(next(iter(self)))
            self[version] = content


def same_file(before: os.stat_result, file: io.BufferedReader) -> bool:
    """True if nobody has written to an open file since `before`, its fstat at that time."""
    now = os.fstat(file.fileno())
    return (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
