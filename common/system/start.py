"""How every program begins: --help needs nothing, and a Python that will not do is told so.

Called before any import that another Python lacks: this file imports the standard library alone,
and Python 3.6 can read it, as it can each file that calls it.
"""

import gc
import importlib.util
import os
import re
import shlex
import sys

import twincheck

OLDEST_PYTHON = (3, 10)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def begin(*packages):
    """End with one sentence and status 2 unless this Python is new enough and has the packages."""
    speak(sys.argv)
    problem = what_is_missing(packages)
    if problem:
        sys.stderr.write(f"error: {problem}: {_what_to_type()}\n")
        sys.exit(2)


def speak(words):
    """From here on the language of --lang, before what else is wrong with a command is said."""
    asked = re.search(r" --lang[= ](en|zh) ", " ".join(["", *words, ""]))
    os.environ.update({"LANGUAGE": asked.group(1)} if asked else {})


def show_help(doc):
    """Print a program's docstring and end, where --help was asked for."""
    if not {"-h", "--help"}.isdisjoint(sys.argv[1:]):
        print(doc.strip())
        sys.exit(0)


def begin_side(framework, doc):
    """Begin a script of a side: --help without its framework, which must be there otherwise."""
    show_help(doc)
    begin("numpy", framework)
    gc.disable()  # an import makes much and drops little; common/sides/worker.py enables it


def forward(name, arguments=None, packages=("numpy", "rich")):
    """Run the command of an extra, whose --help says what it takes; returns the exit status."""
    begin(*packages)
    from twincheck.common.system.extras import run

    return run(name, arguments)


def what_is_missing(packages):
    """What is wrong with this Python, in words; empty where nothing is."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return f"{sys.executable} is Python {version}, and this needs {oldest} or newer"
    missing = [name for name in packages if not installed(name)]
    if missing:
        return "{} (Python {}) has no {}".format(sys.executable, version, " and no ".join(missing))
    return ""


def installed(package):
    """True if a package can be imported; a step's folder named torch or paddle is none."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


def spelled(text):
    """A text with the commands of a checkout, as who came by `twincheck` types them."""
    if not twincheck.COMMAND:
        return text
    text = re.sub(r"python (?:step\d_\w+/|common/)(\w+)\.py", _own_name, text)
    return re.sub(r"python -m (?:common|examples)\.(\w+)", _own_name, text)


def _own_name(found):
    """A program's name as a command of `twincheck`."""
    name = re.sub(r"^check_(step\d|all$)", r"\1", found.group(1)).replace("_", "-")
    return "twincheck " + ("check" if name == "all" else name)


def _what_to_type():
    """The same command under the project's own Python, as it can be copied."""
    python = os.path.join(ROOT, ".venv", "bin", "python")
    short = os.path.relpath(python)
    python = shlex.quote(python if short.startswith(os.pardir) else short)
    command = " ".join([python] + [shlex.quote(word) for word in _program() + sys.argv[1:]])
    if os.path.realpath(sys.prefix) == os.path.realpath(os.path.join(ROOT, ".venv")):
        return f"run `make install` in {shlex.quote(ROOT)}, which installs it"
    if not os.path.exists(os.path.join(ROOT, ".venv", "bin", "python")):
        return f"run `make install` in {shlex.quote(ROOT)}, then: {command}"
    return f"use the Python that `make install` has set up: {command}"


def _program():
    """How the running program was named: `-m NAME`, or its path."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return [sys.argv[0]]
    name = spec.name
    return ["-m", name[: -len(".__main__")] if name.endswith(".__main__") else name]
