"""The executable that stands for a Python: what it is asked to run, a warm server's fork runs.

Written into a folder with the servers' sockets, below a first line that names a Python (see
__init__.py).  It takes on the ends of what it started: exit status and signals, either way.  It
imports only what is built in, since it is started for every process.
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
# What a text holds that is run by -c; reprod_log's report imports paddle.
PROGRAMS = {
    "from twincheck.extras.bits": "transplant",
    "import ReprodDiffHelper": "paddle",
    "import paddle": "paddle",
    "from transformers import": "reference",
}
# Their own processes are cold: each has an environment of its own.
LAUNCHERS = {"torch.distributed.run": "torch", "paddle.distributed.launch": "paddle"}
LAUNCHED = "twincheck.common.system.launched"  # runs one of them
# Set by a warm check that was given --transplant (server.py), for the Paddle workers it starts:
# their own command does not tell that they will import torch too.
TRANSPLANT = "WARM_TRANSPLANT"


def server_of(arguments):
    """Name of the server that can run this, or None."""
    quiet = arguments[:2] == ["-W", "ignore"]
    rest = arguments[2:] if quiet else arguments
    if len(rest) > 1 and rest[0] == "-m":
        if rest[1] == LAUNCHED:
            return LAUNCHERS.get(rest[2]) if quiet else None
        parts = rest[1].removeprefix("twincheck.").split(".")
        side = parts[-2] if len(parts) > 2 else ""
        if parts[0].startswith(("step", "extras")) and side in ("torch", "paddle"):
            if not quiet:
                return None
            return "transplant" if side == "paddle" and transplants() else side
        if parts[0] == "twincheck":
            return "scores" if rest[2:3] in (["step2"], ["step5"]) else "check"
        return "check" if parts[0] == "common" else None
    if len(rest) > 1 and rest[0] == "-c":
        names = [name for text, name in PROGRAMS.items() if text in rest[1]]
        return names[0] if quiet and names else None
    name = os.path.basename(rest[0]) if rest else ""
    if name == "reference_transformers.py":
        return "reference" if quiet else None
    if name == "forked_group.py":  # which stands for a launcher
        words = " ".join(rest).replace("/", ".")  # a module or a script
        sides = [
            s for s in ("torch", "paddle") if f"{s}.train" in words or f"{s}.parallel" in words
        ]
        return sides[0] if quiet and sides else None
    if quiet and "/gallery/findings/" in rest[0]:  # programs that import both frameworks
        return "transplant"
    if name == "twincheck" and os.path.isfile(rest[0]):  # the installed command
        return "scores" if rest[1:2] in (["step2"], ["step5"]) else "check"
    if name in ("check_step2.py", "check_step5.py"):
        return "scores"
    return "check" if name.startswith("check_") and name.endswith(".py") else None


def transplants():
    """True for a Paddle worker that imports torch.

    In a search for the smallest set the first worker is Paddle's own; the variable names a file
    that shows whether it has been started.
    """
    value = os.environ.get(TRANSPLANT, "")
    if os.sep in value:
        try:
            os.close(os.open(value, os.O_CREAT | os.O_EXCL))
            return False
        except FileExistsError:
            return True
    return bool(value)


def main():
    """Run by a server if it can be; else by the real Python."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    arguments = sys.argv[1:]
    with open(os.path.join(folder, "real")) as file:
        real = file.read()
    name = server_of(arguments)
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
        environment = dict(os.environ)
        environment.pop(TRANSPLANT, None)
        request = [arguments, os.getcwd(), environment, inherited, os.getsid(0), umask()]
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


main()
