"""What one command costs while it runs: time, memory of all its processes, disk.

    python -m tools.measure --folder out -- twincheck step1 path/to/my_pair --out out
    python -m tools.measure --json cost.json -- twincheck step4 reformer --preset enwik8

Looks a few times a second, less often where a process is very large, so that what is freed or
deleted before the end counts too.  The command gets a session and a folder for temporary files of
its own; a process that it leaves behind comes to this one as its child, is counted, told, and
ended.  Exit status 0: the command was measured, whatever it said; 2: it could not be.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich", "psutil")

import argparse
import ctypes
import json
import os
import resource
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import psutil

from twincheck.common.check.guard import guarded
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text

EVERY_S = 0.3
LOOKING = 0.05  # of the time at most: to count a large process's pages takes a while
BLOCK = 512  # bytes of st_blocks' unit
MEGA, GIGA = 1e6, 1e9
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
    processes    most at once
    left_behind  that still ran when the command had ended
    """

    status: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory: Memory = field(default_factory=Memory)
    disk: int = 0
    disk_kept: int = 0
    processes: int = 0
    left_behind: int = 0


def measure(
    command: Sequence[str],
    folders: Sequence[Path],
    environment: Mapping[str, str] | None = None,
    every_s: float = EVERY_S,
) -> Measured:
    """Run a command to its end and watch it; what it prints goes where this process prints.

    folders  whose disk use is its own
    Raises UserError where the system has no /proc to read, or no such command.
    """
    if not Path("/proc/self/smaps_rollup").is_file():
        raise UserError("costs are read from /proc/PID/smaps_rollup, which Linux alone has")
    found = Measured()
    others = set(psutil.Process().children())
    memory_files = set(_memory_files())
    _adopt(True)
    start, spent = time.perf_counter(), _spent()
    try:
        try:
            process = psutil.Popen(command, env=environment, start_new_session=True)
        except OSError as error:
            raise UserError(f"{command[0]}: {error.strerror}") from None
        try:
            pause = 0.0
            while not _has_ended(process, pause):
                began = time.process_time()
                _sample(found, others, memory_files, folders)
                pause = max(every_s, (time.process_time() - began) / LOOKING)
            found.status, found.wall_s = int(process.returncode), time.perf_counter() - start
        finally:
            found.left_behind = _end_what_is_left(others)
    finally:
        _adopt(False)
    found.cpu_s = _spent() - spent
    found.disk_kept = disk_use(folders)
    found.disk = max(found.disk, found.disk_kept)
    return found


def _spent() -> float:
    """CPU seconds of children that have ended, and of what they had waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _has_ended(process: psutil.Popen, within_s: float) -> bool:
    with suppress(psutil.TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def _sample(
    found: Measured,
    others: Collection[psutil.Process],
    memory_files: set[Path],
    folders: Sequence[Path],
) -> None:
    """Look once; keep what is higher than before."""
    processes = [one.pid for one in _descendants(others)]
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
    found.processes = max(found.processes, len(processes))


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
    for folder in folders:
        for path in folder.rglob("*"):
            with suppress(OSError):  # deleted meanwhile
                found = path.lstat()
                if not stat.S_ISDIR(found.st_mode):
                    seen[found.st_dev, found.st_ino] = found.st_blocks * BLOCK
    return sum(seen.values())


def _memory_files() -> list[Path]:
    try:
        return list(Path("/dev/shm").iterdir())
    except OSError:
        return []


def _held_open(processes: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Inode -> bytes of memory files, and of deleted files of a disk, that processes hold open.

    psutil's open_files() leaves out both.
    """
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


def _descendants(others: Collection[psutil.Process]) -> list[psutil.Process]:
    """What descends from this process, but for the children that it had before, and theirs."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            found += [] if child in others else [child, *child.children(recursive=True)]
    return found


def _adopt(on: bool) -> None:
    """Whether orphans among this process's descendants become its children."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, int(on), 0, 0, 0)


def _end_what_is_left(others: Collection[psutil.Process]) -> int:
    """Wait a little for what still runs, and end what stays; how many that were."""
    _, left = psutil.wait_procs(_descendants(others), _PATIENCE_S)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    while still := _descendants(others):
        psutil.wait_procs(still)
    return len(left)


def as_text(found: Measured) -> str:
    """The report for people."""
    memory = {name: f"{value / GIGA:.2f}" for name, value in asdict(found.memory).items()}
    lines = [
        f"exit status {found.status}",
        f"  wall    {found.wall_s:9.1f} s",
        f"  CPU     {found.cpu_s:9.1f} s, {found.processes} processes at most",
        f"  memory  {found.memory.total / GIGA:9.2f} GB at its highest: {memory['own']} own, "
        f"{memory['files']} mapped files, {memory['shared']} shared",
        f"  disk    {found.disk / MEGA:9.1f} MB at its highest, {found.disk_kept / MEGA:.1f} kept",
    ]
    if found.left_behind:
        lines.append(f"  {found.left_behind} processes were left behind")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = "whose disk use counts, beside temporary files; may be repeated"
    parser.add_argument(
        "--folder", action="append", type=Path, default=[], metavar="DIR", help=words
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    # Beside what is kept, for it to be on the same disk: /tmp may be memory.
    with tempfile.TemporaryDirectory(prefix=".measured-", dir=".") as name:
        temporary = Path(name).resolve()
        variables = {**os.environ, "TMPDIR": str(temporary)}
        found = measure(options.command, [temporary, *options.folder], variables)
    print(as_text(found))
    if options.json:
        told = asdict(found)
        told["memory"]["total"] = found.memory.total
        write_text(options.json, json.dumps(told, indent=1, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
