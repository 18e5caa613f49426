"""What one command costs while it runs: time, memory of all its processes, disk.

Read from Linux's /proc a few times a second, less often where a process is very large, so that what
is freed or deleted before the end counts too.  The command gets a session of its own; a process
that it leaves behind comes to this one as its child, is counted, told, and ended.
"""

import ctypes
import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from twincheck.common.system.errors import UserError

EVERY_S = 0.3
LOOKING = 0.05  # of the time at most: to count a large process's pages takes a while
BLOCK = 512  # bytes of st_blocks' unit
_PATIENCE_S = 1.0  # for processes to end after the command has
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_SHARED = ("/memfd:", "/dev/shm/")  # what files that are memory are called


@dataclass
class Memory:
    """Bytes of all processes at one moment; a page that several share counts once.

    own      in no file: what the programs allocated
    files    pages of files that are mapped: the system can take them back
    shared   memory files (memfd, /dev/shm) and shared mappings, opened, mapped or left lying
    """

    own: int = 0
    files: int = 0
    shared: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.own + self.files + self.shared


@dataclass
class Measured:
    """What a command cost.

    status       its exit status; negative: the signal that ended it
    cpu_s        of all its processes, user and system
    memory       at the moment of the highest total
    disk         bytes of the watched folders and of deleted files held open, at the highest
    disk_kept    bytes of the watched folders after the end
    df           how much more of the file system was in use, at the highest; others use it too
    processes    most at once
    left_behind  that still ran when the command had ended
    samples      how often was looked
    """

    status: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory: Memory = field(default_factory=Memory)
    disk: int = 0
    disk_kept: int = 0
    df: int = 0
    processes: int = 0
    left_behind: int = 0
    samples: int = 0

    def as_dict(self) -> dict:
        """For JSON."""
        found = asdict(self)
        return found | {"memory": found["memory"] | {"total": self.memory.total}}


def measure(
    command: Sequence[str],
    folders: Sequence[Path],
    output: Path,
    environment: Mapping[str, str] | None = None,
    every_s: float = EVERY_S,
) -> Measured:
    """Run a command to its end and watch it.

    folders  whose disk use is its own; the first's file system is what `df` is of
    output   the file that standard output and standard error go to
    Raises UserError where the system has no /proc to read.
    """
    if not Path("/proc/self/smaps_rollup").is_file():
        raise UserError("costs are read from /proc/PID/smaps_rollup, which Linux alone has")
    found = Measured()
    others = set(_children(os.getpid()))
    memory_files = set(_memory_files())
    used = _used(folders[0])
    _adopt(True)
    start = time.perf_counter()
    try:
        with output.open("wb") as sink:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(os.environ if environment is None else environment),
                start_new_session=True,
            )
        try:
            ended = os.pidfd_open(process.pid)
            try:
                pause = 0.0
                while not select.select([ended], [], [], pause)[0]:
                    began = time.process_time()
                    _sample(found, others, memory_files, folders, used)
                    pause = max(every_s, (time.process_time() - began) / LOOKING)
            finally:
                os.close(ended)
            found.wall_s = time.perf_counter() - start
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = found.status = os.waitstatus_to_exitcode(status)
            found.cpu_s = usage.ru_utime + usage.ru_stime
        finally:
            _end_what_is_left(found, others)
    finally:
        _adopt(False)
    found.disk_kept = disk_use(folders)
    found.disk = max(found.disk, found.disk_kept)
    return found


def _sample(
    found: Measured,
    others: set[int],
    memory_files: set[Path],
    folders: Sequence[Path],
    used: int,
) -> None:
    """Look once; keep what is higher than before."""
    processes = _descendants(others)
    shared, deleted = _held_open(processes)
    for path in set(_memory_files()) - memory_files:
        with suppress(OSError):
            shared[path.stat().st_ino] = path.stat().st_blocks * BLOCK
    memory = memory_of(processes)
    # Shared pages that are mapped, or all of the files that hold such pages: the same memory.
    memory.shared = max(memory.shared, sum(shared.values()))
    if memory.total > found.memory.total:
        found.memory = memory
    found.disk = max(found.disk, disk_use(folders) + sum(deleted.values()))
    found.df = max(found.df, _used(folders[0]) - used)
    found.processes = max(found.processes, len(processes))
    found.samples += 1


def memory_of(processes: Iterable[int]) -> Memory:
    """The memory of processes together; one that has ended has none."""
    memory = Memory()
    for pid in processes:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        kib = {name: int(rest.split()[0]) for name, _, rest in (s.partition(":") for s in lines)}
        memory.files += kib["Pss_File"] * 1024
        memory.shared += kib["Pss_Shmem"] * 1024
        memory.own += (kib["Pss_Anon"] + kib.get("SwapPss", 0)) * 1024
    return memory


def disk_use(folders: Iterable[Path]) -> int:
    """Bytes that files under the folders take on the disk; one with two names counts once."""
    seen: dict[tuple[int, int], int] = {}
    waiting = [os.fspath(folder) for folder in folders]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):  # deleted meanwhile
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                        continue
                    found = entry.stat(follow_symlinks=False)
                    seen[found.st_dev, found.st_ino] = found.st_blocks * BLOCK
    return sum(seen.values())


def _used(folder: Path) -> int:
    system = os.statvfs(folder)
    return (system.f_blocks - system.f_bfree) * system.f_frsize


def _memory_files() -> list[Path]:
    try:
        return list(Path("/dev/shm").iterdir())
    except OSError:
        return []


def _held_open(processes: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Inode -> bytes of memory files, and of deleted files of a disk, that processes hold open."""
    shared: dict[int, int] = {}
    deleted: dict[int, int] = {}
    for pid in processes:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    name = os.readlink(entry.path)
                    is_memory = name.startswith(_SHARED)
                    if not (is_memory or name.endswith(" (deleted)")):
                        continue
                    file = os.stat(entry.path)
                    if stat.S_ISREG(file.st_mode):
                        kept = shared if is_memory else deleted
                        kept[file.st_ino] = file.st_blocks * BLOCK
    return shared, deleted


# ---- processes ----------------------------------------------------------------------------------


def _parents() -> dict[int, int]:
    """Process -> its parent, of all that run."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, IndexError):
                # The name, in brackets, may hold anything.
                told = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if told[0] not in "ZX":
                    found[int(name)] = int(told[1])
    return found


def _children(pid: int) -> list[int]:
    return [child for child, parent in _parents().items() if parent == pid]


def _descendants(others: set[int]) -> list[int]:
    """What descends from this process, but for the children that it had before."""
    below: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        below.setdefault(parent, []).append(child)
    found, waiting = [], [pid for pid in below.get(os.getpid(), ()) if pid not in others]
    while waiting:
        found.append(waiting.pop())
        waiting += below.get(found[-1], ())
    return found


def _adopt(on: bool) -> None:
    """Whether orphans among this process's descendants become its children."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, int(on), 0, 0, 0)


def _end_what_is_left(found: Measured, others: set[int]) -> None:
    """Wait a little for orphans, end those that stay, and add what they used."""
    until = time.monotonic() + _PATIENCE_S
    while _descendants(others) and time.monotonic() < until:
        _reap(found, others)
        time.sleep(0.02)
    left = _descendants(others)
    found.left_behind = len(left)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while _descendants(others):
        time.sleep(0.02)
    _reap(found, others)


def _reap(found: Measured, others: set[int]) -> None:
    """Take the exit status of adopted children that have ended, and add their time."""
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) in others:
            continue
        with suppress(OSError):
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                pid, _, usage = os.wait4(int(name), os.WNOHANG)
                if pid:
                    found.cpu_s += usage.ru_utime + usage.ru_stime
