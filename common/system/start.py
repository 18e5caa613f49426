"""How every program begins: --help needs nothing, and a Python that will not do is told so.

Called before any import that another Python lacks: this file imports the standard library alone,
and Python 3.6 can read it, as it can each file that calls it.
"""

import gc
import importlib.util
import os
import re
import sys

import twincheck
from twincheck.common.system.door import joined, shown, to_install

OLDEST_PYTHON = (3, 10)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def begin(*packages):
    """End with one sentence and status 2 unless this Python is new enough and has the packages."""
    speak(sys.argv)
    problem = what_is_missing(packages)
    if problem:
        sys.stderr.write(f"error: {problem}: {_what_to_type(packages)}\n")
        sys.exit(2)
    from twincheck.common.system.processes import watch  # another Python could not read it

    watch()


def speak(words):
    """Speak the language of --lang, before what else is wrong with a command is said."""
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


def what_is_missing(packages):
    """Return what is wrong with this Python, in words; empty where nothing is."""
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


def _what_to_type(packages):
    """Return how to run the same command under the project's own Python, as it can be copied."""
    install = to_install(*packages)
    if not twincheck.IN_A_CHECKOUT:
        return f"`{install}` installs it"
    venv = os.path.join(ROOT, ".venv")
    python = os.path.join(venv, "bin", "python")
    command = joined(shown(python), *_program(), *sys.argv[1:])
    if os.path.realpath(sys.prefix) == os.path.realpath(venv):
        return f"run `{install}`, which installs it"
    if not os.path.exists(python):
        return f"run `{install}`, then: {command}"
    return f"use the Python that `{install}` has set up: {command}"


def _program():
    """Return the words that named the running program: `-m NAME`, or its path."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return [sys.argv[0]]
    name = spec.name
    return ["-m", name[: -len(".__main__")] if name.endswith(".__main__") else name]
