"""Stands for a Python: what it is asked to run, a fork of a server runs (fork_server.py).

Copied into a folder with the servers' sockets, behind a function server_of(arguments), which gives
the name of the socket whose server can run them, or None.  It takes on the ends of what it started:
exit status and signals, either way.  It imports only what is built in, since it is started for
every process.
"""

import _signal
import _socket
import marshal
import os
import sys

FORWARDED = [
    getattr(_signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
]
INHERITED = ("ALIGNMENT_WORKBENCH_PARENT",)  # variables that hold the number of an open file


def main():
    """Run by a server if it can be; else by the real Python."""
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    arguments = sys.argv[1:]
    with open(os.path.join(folder, "real")) as file:
        real = file.read()
    name = server_of(arguments)  # noqa: F821 (stands above, in the copy)
    if name and _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
        ask(os.path.join(folder, name), arguments)
    os.execv(real, [real, *arguments])


def ask(path, arguments):
    """Have a server run it, and end as that ends; returns if the server will not."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    files, inherited = [0, 1, 2], []
    for variable in INHERITED:
        number = os.environ.get(variable, "")
        if number.isdecimal():
            inherited.append(variable)
            files.append(int(number))
    try:
        request = [arguments, os.getcwd(), dict(os.environ), inherited, os.getsid(0), umask()]
        content = marshal.dumps(request)
        content = len(content).to_bytes(4, "little") + content
        connection.connect(path)
        rights = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
        sent = connection.sendmsg([content], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        connection.sendall(content[sent:])
        pid = received(connection)
    except OSError:  # no server; a file that is closed; a folder that is gone
        return
    if not pid:  # None: the server ended; 0: it says no
        return
    leader = os.getpgrp() == os.getpid()

    def forward(number, frame):
        # To all that a group's first process was started with, as if it were of that group.
        try:
            (os.killpg if leader else os.kill)(pid, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, forward)
    status = received(connection)
    if status is None:  # the server was killed: what it ran must not go on alone
        try:
            os.killpg(pid, _signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = _signal.SIGKILL
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def umask():
    """This process's umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def received(connection):
    """A number from the server; None where it has ended."""
    content = b""
    while len(content) < 8:
        more = connection.recv(8 - len(content))
        if not more:
            return None
        content += more
    return int.from_bytes(content, "little")


if __name__ == "__main__":
    main()
