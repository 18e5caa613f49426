"""A process that imports a framework once and forks for each run of a module or script.

    python [-W ignore] server.py LISTENER CLIENT IMPORT...

LISTENER  number of an open socket that listens
CLIENT    the executable that asks, where a run starts others by it (a check its workers); or ""

It imports at the first request, and computes nothing: a framework that has started threads cannot
be forked.  It imports nothing of the workbench either: each run imports its own checkout's.  A
request whose environment is not the server's own runs elsewhere, since a framework reads it once,
when it is imported.  The server ends when standard input does.
"""

import _socket
import atexit
import gc
import importlib
import io
import marshal
import os
import select
import signal
import sys
import threading
import time
import types

# Read after the start, if at all: a run may have its own.
_FREE = ("PYTHONPATH", "PYTHONUNBUFFERED", "ALIGNMENT_WORKBENCH_PARENT", "COLUMNS", "LINES")
_FREE += ("PWD", "OLDPWD", "SHLVL", "_")  # a shell's own: a wrapper of Python sets them anew
_FREE += ("TWINCHECK_DOOR",)  # how who started a check types commands
# An OpenMP runtime that has computed notes its process's number and address behind os.environ's
# back, where only what is started without an environment of its own inherits it.
_FREE_PREFIXES = ("PYTEST_", "__KMP_REGISTERED_LIB_")
# Set by importing Paddle, scikit-learn and transformers: a test that did so hands them on, and
# would be refused for it.  A process that imports these sets them itself.
SET_BY_IMPORTS = ("CUSTOM_DEVICE_ROOT", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")
SET_BY_IMPORTS += ("TORCHINDUCTOR_CACHE_DIR",)
_PATIENCE_S = 20.0
_LONGEST = 1 << 22


class Refused(Exception):
    """A request that must run elsewhere."""


class Server:
    """See the module's docstring."""

    def __init__(self, listener: int, client: str, modules: list[str]):
        self.listener = _socket.socket(fileno=listener)
        self.client = client
        self.modules = modules
        self.before = dict(os.environ)
        self.imported: dict[str, str | None] | None = None  # what importing did to the environment
        self.running: dict[int, _socket.socket] = {}  # process -> who waits for it
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.own = [self.wake, wake]
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: who started the server ends it

    def serve(self) -> dict | None:
        """Answer until standard input ends.

        Returns a request in the forked process that is to run it, None in the server at its end.
        """
        while True:
            waiting = [self.listener.fileno(), self.wake, 0]
            waiting += [connection.fileno() for connection in self.running.values()]
            ready = select.select(waiting, [], [])[0]
            if self.wake in ready:
                os.read(self.wake, 4096)
            self.reap()
            for pid, connection in list(self.running.items()):
                if connection.fileno() in ready:  # the client says nothing more: it is gone
                    kill(pid)
            if 0 in ready:
                for pid in self.running:
                    kill(pid)
                return None
            if self.listener.fileno() in ready:
                request = self.accept()
                if request is not None:
                    return request

    def reap(self) -> None:
        """Tell clients of processes that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            connection = self.running.pop(pid, None)
            if connection is not None:
                tell(connection, status)
                connection.close()

    def accept(self) -> dict | None:
        """Read a request and fork; the request in the new process, None in the server."""
        number = self.listener._accept()[0]
        connection = _socket.socket(fileno=number)
        files: list[int] = []
        try:
            request = read(connection, files)
            self.check(request)
            self.load()
        except Refused:
            tell(connection, 0)
            connection.close()
            close(files)
            return None
        pid = os.fork()
        if pid == 0:
            connection.close()
            self.leave()
            settle(request, files)
            # What a check imports late must not reach the workers that it starts before.
            adjust(request, {} if self.client else self.imported)
            if self.client and "--transplant" in request["arguments"]:
                self.tell_workers(request["arguments"])
            return request
        try:
            os.setpgid(pid, pid)  # whoever is first; the process does so too
        except OSError:
            pass
        self.running[pid] = connection
        tell(connection, pid)
        close(files)
        return None

    def tell_workers(self, arguments: list[str]) -> None:
        """In a check's process: its Paddle workers import torch, which their clients must know."""
        first = f"first-{os.getpid()}-{time.monotonic_ns()}"  # only later ones (client.py)
        folder = os.path.dirname(self.client)
        smallest = "smallest" in arguments
        os.environ["WARM_TRANSPLANT"] = os.path.join(folder, first) if smallest else "all"

    def check(self, request: dict) -> None:
        """Raise Refused unless a fork is as good as a process of its own."""
        if request["session"] != os.getsid(0):
            raise Refused("another session")
        if wanted(request["environment"]) != wanted(self.before):
            raise Refused("another environment")
        if self.imported is None and len(self.modules) == 0:
            raise Refused("the imports failed")

    def load(self) -> None:
        """Import what the server is for, once."""
        if self.imported is not None:
            return
        try:
            for name in self.modules:
                importlib.import_module(name)
        except Exception:  # whoever asks finds out what it is
            self.modules = []
            raise Refused("the imports failed") from None
        gc.collect()
        gc.freeze()  # a fork need not look through all that again
        now = dict(os.environ)
        self.imported = {
            name: now.get(name)
            for name in {*now, *self.before}
            if now.get(name) != self.before.get(name)
        }

    def leave(self) -> None:
        """In the forked process: be nothing of a server any more."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setpgid(0, 0)
        self.listener.close()
        for connection in self.running.values():
            connection.close()
        close(self.own)


def wanted(environment: dict) -> dict:
    """What of an environment must be the same."""
    return {
        name: value
        for name, value in environment.items()
        if name not in (*_FREE, *SET_BY_IMPORTS) and not name.startswith(_FREE_PREFIXES)
    }


def kill(pid: int) -> None:
    """End a process and its group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def close(files: list[int]) -> None:
    """Close open files."""
    for number in files:
        os.close(number)


def tell(connection: _socket.socket, number: int) -> None:
    """Send a client a number; it may be gone."""
    try:
        connection.sendall(number.to_bytes(8, "little"))
    except OSError:
        pass


def read(connection: _socket.socket, files: list[int]) -> dict:
    """A client's request, and the open files that came with it."""
    connection.settimeout(_PATIENCE_S)
    content, size = b"", 4
    try:
        while len(content) < size:
            more, rights, *_ = connection.recvmsg(1 << 16, 1 << 10)
            for _, _, data in rights:
                numbers = [data[i : i + 4] for i in range(0, len(data), 4)]
                files += [int.from_bytes(number, sys.byteorder) for number in numbers]
            content += more
            if len(content) >= 4 and size == 4:
                size = 4 + int.from_bytes(content[:4], "little")
            if not more or size > _LONGEST:
                raise Refused("no whole request")
        names = ("arguments", "folder", "environment", "inherited", "session", "umask")
        return dict(zip(names, marshal.loads(content[4:]), strict=True))
    except (OSError, ValueError, EOFError):
        raise Refused("no request") from None


def settle(request: dict, files: list[int]) -> None:
    """Take on the client's open files, folder and umask."""
    for standard, number in enumerate(files[:3]):
        os.dup2(number, standard)
    close(files[:3])
    for variable, number in zip(request["inherited"], files[3:], strict=True):
        os.set_inheritable(number, True)
        request["environment"][variable] = str(number)
    open_streams(bool(request["environment"].get("PYTHONUNBUFFERED")))
    os.chdir(request["folder"])
    os.umask(request["umask"])


def open_streams(unbuffered: bool) -> None:
    """Standard input, output and error, made for what they are now as Python does at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        former = getattr(sys, name)
        raw = number > 0 and unbuffered
        stream = open(number, "wb" if number else "rb", 0 if raw else -1, closefd=False)
        getattr(stream, "raw", stream).name = f"<{name}>"
        text = io.TextIOWrapper(
            stream,
            former.encoding,
            former.errors,
            newline="\n" if number else None,
            line_buffering=not raw and (stream.isatty() or number == 2),
            write_through=unbuffered,
        )
        text.mode = "w" if number else "r"
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def adjust(request: dict, imported: dict[str, str | None]) -> None:
    """Take on the client's environment, with what the imports did to it, and its search path."""
    paths = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["environment"])
    for name, value in imported.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    sys.path[:0] = [os.path.abspath(path) for path in paths if path]
    if "numpy.random" in sys.modules:  # or every fork would draw the same
        sys.modules["numpy.random"].seed()


def prepare(request: dict) -> tuple[str, str, types.ModuleType]:
    """("-m", "-c" or "", what it names, the module that it is to run in), all else set for it."""
    arguments = request["arguments"]
    if arguments[:2] == ["-W", "ignore"]:
        arguments = arguments[2:]
        if "ignore" not in sys.warnoptions:
            import warnings

            sys.warnoptions.append("ignore")
            warnings.simplefilter("ignore")
    kind = arguments[0] if arguments[0] in ("-m", "-c") else ""
    name, *more = arguments[1:] if kind else arguments
    sys.argv[:] = [kind or name, *more]
    sys.orig_argv[:] = [sys.executable, *request["arguments"]]
    script = os.path.realpath(name)
    sys.path.insert(0, {"-m": os.getcwd(), "-c": ""}.get(kind, os.path.dirname(script)))
    module = types.ModuleType("__main__")
    module.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = module
    return kind, name, module


def main() -> None:
    """Serve; in a forked process, run what was asked, as the last thing that it does."""
    del sys.path[0]  # this folder
    server = Server(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    request = server.serve()
    if request is None:
        os._exit(0)
    if server.client:
        sys.executable = server.client
    try:
        run(*prepare(request))
    except SystemExit as error:
        if not (error.code is None or isinstance(error.code, int)):
            raise
        end(error.code or 0)
    end(0)


def run(kind: str, name: str, module: types.ModuleType) -> None:
    """Run a module, a text or a script."""
    if kind == "-m":
        import runpy

        runpy._run_module_as_main(name)
        return
    text = name
    if not kind:
        module.__file__ = os.path.abspath(name)
        with open(name, "rb") as file:
            text = file.read()
    exec(compile(text, "<string>" if kind else name, "exec"), module.__dict__)


def end(status: int) -> None:
    """End as Python does, but for taking the frameworks apart, which takes a fifth of a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):  # Python complains, and ends with another status
            sys.exit(status)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    if len(sys.argv) < 3 or "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        sys.exit(0 if len(sys.argv) == 2 and sys.argv[1] in ("-h", "--help") else 2)
    main()
