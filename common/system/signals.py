"""Ctrl-C and other signals to stop: one clean end, delayed where a step must not be cut in two."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
