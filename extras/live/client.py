"""Stands for a side's Python: has the process that holds the models run what it is told to.

    python -IS client.py SOCKET PYTHON ARGUMENT…

Standard library only, and of it what imports fast.  A worker's module runs in a fork of that
process (serve.py), with this one's standard streams and environment; it ends when this one does.
All else, such as the question which frameworks there are, runs in Python itself.
"""

import json
import os
import signal
import socket
import sys

_STEPS = "twincheck."


def module_of(arguments):
    """The worker's module that the arguments ask for; None for all else."""
    rest = arguments[2:] if arguments[:2] == ["-W", "ignore"] else arguments
    if len(rest) > 1 and rest[0] == "-m" and rest[1].startswith(_STEPS):
        return rest[1]
    return None


def main():
    """Ask for a fork and wait for its end; the exit status is the fork's."""
    if sys.argv[1:2] in ([], ["-h"], ["--help"]):
        print(__doc__.strip())
        return
    path, python, *arguments = sys.argv[1:]
    if module_of(arguments) is None:
        os.execv(python, [python, *arguments])
    words = arguments[arguments.index("-m") + 2 :]
    environment = dict(os.environ)
    environment.pop("ALIGNMENT_WORKBENCH_PARENT", None)  # this process's own (processes.py)
    asked = {"module": module_of(arguments), "words": words, "environment": environment}
    asked["group"] = os.getpgrp()
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(path)
    socket.send_fds(channel, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
    for number in (0, 1, 2):  # the fork's alone, so that a pipe ends when it does
        os.close(number)
    said = b""
    while not said.endswith(b"\n"):
        part = channel.recv(64)
        if not part:
            break
        said += part
    status = int(said or 1)
    if status < 0:  # a signal ended the fork: this process ends alike
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
