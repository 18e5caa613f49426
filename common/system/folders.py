"""Working folders, and finished results that replace the former ones whole or not at all.

Killed at any moment, a check leaves the former result, or one that the next check brings back.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind
from twincheck.common.system.signals import put_off

_TRIES = 40
_PAUSE_S = 0.05


@contextmanager
def working_folder(base: Path) -> Iterator[Path]:
    """A folder in `base` to work in, removed at the end, locked against other checks' tidying."""
    with tempfile.TemporaryDirectory(prefix=f".work-{os.getpid()}-", dir=base) as name:
        lock = lock_folder(Path(name))
        try:
            yield Path(name)
        finally:
            if lock is not None:
                os.close(lock)


def remove_abandoned(base: Path) -> None:
    """Tidy what a killed check left: its working folders go, a result moved aside comes back.

    A folder is abandoned if no process has the number in its name and none holds its lock.  The
    lock is asked too, since the number of a process in another container that shares the checkout
    means nothing here.  What may not be written to stays.
    """
    for path in [*base.glob(".work-*-*"), *base.glob(".old-*-*")]:
        try:
            os.kill(int(path.name.split("-")[1]), 0)
            continue
        except (ValueError, OverflowError, PermissionError):
            continue
        except ProcessLookupError:
            pass
        lock = lock_folder(path)
        if lock is None:
            continue
        with suppress(OSError):
            for kept in path.iterdir() if path.name.startswith(".old-") else ():
                if not os.path.lexists(base / kept.name):
                    os.replace(kept, base / kept.name)
            shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def lock_folder(folder: Path) -> int | None:
    """Hold a folder's lock till the descriptor is closed; None where another process holds it.

    Where the file system has no locks, every folder counts as unlocked.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass
    return descriptor


def put_in_place(finished: Path, target: Path) -> None:
    """Swap a finished folder in for the former one, which comes back where that fails.

    Ctrl-C waits for it.  Killed in between, the next check brings the former one back.
    """
    if target.is_symlink():
        raise UserError(Kind.RESULT_IS_LINK(target=str(target)))
    with put_off():
        old = Path(tempfile.mkdtemp(prefix=f".old-{os.getpid()}-", dir=target.parent))
        lock = lock_folder(old)
        replaced = False
        try:
            _swap(finished, target, old / target.name)
            replaced = True  # if the target is absent again, another check is just swapping
        finally:
            if replaced or os.path.lexists(target):  # else the next check brings it back
                shutil.rmtree(old, ignore_errors=True)
            if lock is not None:
                os.close(lock)


def _swap(finished: Path, target: Path, aside: Path) -> None:
    for _ in range(_TRIES):
        try:
            if target.exists():
                if aside.exists():  # an older result; another check has put in a newer one since
                    shutil.rmtree(aside)
                os.replace(target, aside)
            os.replace(finished, target)
            return
        except OSError as error:
            reason = error.strerror
        if aside.exists() and not os.path.lexists(target):
            with suppress(OSError):
                os.replace(aside, target)
        time.sleep(_PAUSE_S)  # another check may be swapping its own result in
    raise UserError(Kind.RESULT_NOT_REPLACED(target=str(target), reason=reason))


def version(folder: Path) -> tuple[int, int] | None:
    """Return what tells a result from the next one of the same name; None where there is none."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
