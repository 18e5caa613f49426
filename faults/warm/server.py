"""A process that imports a framework once and forks for each run of a module or script.

    python [-W ignore] server.py LISTENER CLIENT IMPORT...

LISTENER  number of an open socket that listens
CLIENT    the executable that asks, where a run starts others by it (a check its workers); or ""

It imports at the first request, and computes nothing: a framework that has started threads cannot
be forked.  It imports nothing of the workbench either: each run imports its own checkout's.  A
request whose environment is not the server's own runs elsewhere, since a framework reads it once,
when it is imported.  The server ends when standard input does.
"""

import gc
import importlib
import os
import signal
import sys
import types
from pathlib import Path
from socket import socket

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "extras" / "shared"))
import fork_server  # noqa: E402

del sys.path[0], sys.modules["fork_server"]  # a run is not to find it

# What Python, a framework or another library reads at its start, or once, when it is imported.
_READ = ("ATEN_", "CUDA_", "DNNL_", "FLAGS_", "GLOG_", "GOMP_", "HF_", "HOME", "LANG", "LC_", "LD_")
_READ += ("MALLOC_", "MKL_", "MPL", "OMP_", "ONEDNN_", "OPENBLAS_", "PADDLE_", "PYTHON", "TORCH_")
_READ += ("TRANSFORMERS_", "TZ")
_FREE = ("PYTHONPATH", "PYTHONUNBUFFERED")  # a run may have its own


class Server(fork_server.Server):
    """See the module's docstring."""

    def __init__(self, listener: socket, client: str, modules: list[str]):
        super().__init__(listener, self._run)
        self.client, self.modules = client, modules
        self.before = dict(os.environ)
        self.imported: dict[str, str | None] | None = None  # what importing did to the environment

    def accepts(self, request: dict) -> bool:
        """True where session and environment are its own, and the imports succeed."""
        same = wanted(request["environment"]) == wanted(self.before)
        return request["session"] == os.getsid(0) and same and self._loaded()

    def _loaded(self) -> bool:
        """Import what the server is for, once."""
        if self.imported is None and self.modules:
            try:
                for name in self.modules:
                    importlib.import_module(name)
            except Exception:  # whoever asks finds out what it is
                self.modules = []
                return False
            gc.collect()
            gc.freeze()  # a fork need not look through all that again
            now = dict(os.environ)
            names = {*now, *self.before}
            changed = (name for name in names if now.get(name) != self.before.get(name))
            self.imported = {name: now.get(name) for name in changed}
        return self.imported is not None

    def _run(self, request: dict) -> None:
        """In a fork: run a module, a text or a script, as this Python would."""
        if self.client:
            sys.executable = self.client
        else:  # what a check imports late must not reach the workers that it starts before
            for name, value in self.imported.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        paths = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [os.path.abspath(path) for path in paths if path]
        if "numpy.random" in sys.modules:  # or every fork would draw the same
            sys.modules["numpy.random"].seed()
        run(request["arguments"])


def wanted(environment: dict) -> dict:
    """Return what of an environment must be the same."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ) and name not in _FREE
    }


def run(arguments: list[str]) -> None:
    """Run what Python is given: -m and a module, -c and a text, or a script."""
    sys.orig_argv[:] = [sys.executable, *arguments]
    if arguments[:2] == ["-W", "ignore"]:
        arguments = arguments[2:]
        if "ignore" not in sys.warnoptions:
            import warnings

            sys.warnoptions.append("ignore")
            warnings.simplefilter("ignore")
    kind = arguments[0] if arguments[0] in ("-m", "-c") else ""
    name, *more = arguments[1:] if kind else arguments
    sys.argv[:] = [kind or name, *more]
    folder = os.path.dirname(os.path.realpath(name))
    sys.path.insert(0, {"-m": os.getcwd(), "-c": ""}.get(kind, folder))
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__builtins__ = sys.modules["builtins"]
    if kind == "-m":
        import runpy

        runpy._run_module_as_main(name)
        return
    text = name
    if not kind:
        module.__file__ = os.path.abspath(name)
        text = Path(name).read_bytes()
    exec(compile(text, "<string>" if kind else name, "exec"), module.__dict__)


def main() -> None:
    """Serve until standard input ends."""
    del sys.path[0]  # this folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: who started the server ends it
    server = Server(socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:])
    while 0 not in server.wait(None, [0]):
        pass
    server.close()
    os._exit(0)


if __name__ == "__main__":
    main()
