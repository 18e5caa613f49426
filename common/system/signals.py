"""Ctrl-C and other signals to stop: one clean end, delayed where a step must not be cut in two."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Ctrl-C, or a signal that asks the program to end; its text is the signal's name."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped for the first SIGINT, SIGTERM or SIGHUP; those during the tidying are ignored.

    A signal that is ignored from outside, as nohup does, stays so.
    """

    def stop(number, frame):
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(signal.Signals(number).name)

    before = _installed(stop)
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def put_off() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP wait till the end of the block."""
    received: list[int] = []
    before = _installed(lambda number, frame: received.append(number))
    try:
        yield
    finally:
        _restore(before)
        for number in received[:1]:
            signal.raise_signal(number)


def _installed(handler) -> dict[int, object]:
    """Put a handler in for the stopping signals; what was there, for those that may be changed."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in _STOPPING}
    changed = {n: old for n, old in before.items() if old not in (None, signal.SIG_IGN)}
    for number in changed:
        signal.signal(number, handler)
    return changed


def _restore(before: dict[int, object]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)


class Beside(threading.Thread, Generic[T]):
    """An action in a thread of its own; a context manager that ends it.

    Where the block ends with an error, such as Ctrl-C, whatever the action waits for next raises
    Stopped (`raise_if_stopped`): it tidies up, and the block's end waits for that.
    """

    def __init__(self, action: Callable[[], T]):
        super().__init__()
        self.stopped = False
        self._action = action
        self._made: Future[T] = Future()

    def run(self) -> None:
        """The thread's own: what the action gives is kept, or what it raises."""
        try:
            self._made.set_result(self._action())
        except BaseException as error:
            self._made.set_exception(error)

    def result(self) -> T:
        """Wait for what the action gives; raises what it raised."""
        return self._made.result()

    def __enter__(self) -> "Beside[T]":
        self.start()
        return self

    def __exit__(self, error_type, *error: object) -> None:
        self.stopped = error_type is not None
        self.join()


def is_beside() -> bool:
    """True in the thread of a Beside."""
    return isinstance(threading.current_thread(), Beside)


def raise_if_stopped() -> None:
    """Raise Stopped in the thread of a Beside that is to end; for those who wait in a loop."""
    if getattr(threading.current_thread(), "stopped", False):
        raise Stopped
