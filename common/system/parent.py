"""A process that ends with the one that started it, however that one ended.

The parent keeps one end of a pipe open and says nothing; when it is gone, killed or not, the system
closes that end and the child reads the end of the pipe.  That needs no signal and works on every
Unix.  No NumPy, no framework: `watch` is called before anything slow.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence

_NAME = "ALIGNMENT_WORKBENCH_PARENT"  # the number of the pipe's end, for the child


class Child(subprocess.Popen):
    """A process in a group of its own that ends, if it calls `watch`, when this process does.

    A group of its own, so that Ctrl-C reaches the parent alone, which then ends the child and
    whatever that has started.
    """

    def __init__(self, command: Sequence[str], env: dict[str, str], **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        reading, self._alive = os.pipe()
        try:
            super().__init__(
                list(command),
                env=env | {_NAME: str(reading)},
                pass_fds=(reading,),
                process_group=0,
                **options,
            )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(reading)

    def let_go(self) -> None:
        """Close the pipe once the process has ended."""
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    def stop(self, patience_s: float = 5.0) -> None:
        """End the process and those that it started, if it still runs."""
        if self.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self.pid, number)
                except (ProcessLookupError, PermissionError):
                    pass
                try:
                    self.wait(timeout=patience_s)
                    break
                except subprocess.TimeoutExpired:
                    continue
        self.let_go()


def watch() -> None:
    """End this process (and its group, if it is the first of one) when its parent is gone.

    Does nothing where no Child started it.
    """
    text = os.environ.pop(_NAME, "")  # what this process starts has another parent
    if not text.isdecimal():
        return
    descriptor = int(text)
    try:
        os.set_inheritable(descriptor, False)
    except OSError:  # an interpreter's wrapper that closes what it does not know
        return
    threading.Thread(target=_wait, args=(descriptor,), daemon=True).start()


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, 64):
            pass
    except OSError:
        return
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
