"""What people type: every command that is printed, shown or written is made here, of its words.

    to_type("bundle", "--from", folder)      as this person types it, where this was started
    for_others("verify", "bundle.zip")       as the reader of a file does, wherever that is

The one door is `twincheck`.  Where it is not on the PATH it is a path to it, and where there is
none a Python and the package.  The standard library alone, as Python 3.6 reads it (start.py).
"""

import json
import os
import shlex
import shutil
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

from twincheck import HERE, IN_A_CHECKOUT

NAME = "twincheck"
ROOT = os.path.dirname(HERE)
# How this person came, for the processes that a command starts: each would say its own Python.
VARIABLE = "TWINCHECK_DOOR"


def to_type(*words):
    """A command of `twincheck` as this person types it in the folder that this was started in.

    words   a path (os.PathLike) is shown as it is typed from there
    """
    return joined(*_door(), *words)


def for_others(*words):
    """Return a command as anybody types it who has the workbench: for a file that is handed on."""
    return joined(NAME, *words)


def in_help(text):
    """A help's text, whose commands begin with the door's name, as this person types them."""
    return text.replace(NAME + " ", to_type() + " ")


def to_install(*packages):
    """Return what to type to install what the workbench needs: `make install` or pip's."""
    return to_make("install") if IN_A_CHECKOUT else to_pip(*packages)


def to_make(target):
    """Return what to type to make something of the checkout."""
    return joined("make", *([] if os.getcwd() == ROOT else ["-C", ROOT]), target)


def to_pip(*packages, python=None):
    """Return what to type to install packages for a Python, by default this one."""
    return joined(python or this_python(), "-m", "pip", "install", *packages)


def this_python():
    """Return how this Python is called from here: `python`, where that is the one, or its path."""
    here = shutil.which("python")
    own = os.path.abspath(sys.executable)
    return "python" if here and os.path.abspath(here) == own else shown(own)


def shown(path):
    """A path relative to where the user is, if it is below."""
    path = os.fspath(path)
    try:
        below = os.path.relpath(path)
    except OSError:  # the user's folder is gone
        return path
    return path if below.split(os.sep)[0] == os.pardir else below


def joined(*words):
    """Words as a shell reads them again; a path (os.PathLike) as it is typed from here."""
    return " ".join(shlex.quote(shown(w) if isinstance(w, os.PathLike) else str(w)) for w in words)


def _door():
    given = os.environ.get(VARIABLE)
    if given:
        return shlex.split(given)
    called, here = sys.argv[0], os.path.dirname(os.path.abspath(sys.executable))
    beside = os.path.join(here, NAME)
    if not (os.path.basename(called) == NAME and os.path.isfile(called)):
        called = beside if _is_of_this_package(beside) else ""
    if not called:
        return [this_python(), shown(HERE)] if IN_A_CHECKOUT else [this_python(), "-m", NAME]
    on_path = shutil.which(NAME)
    if on_path and os.path.samefile(on_path, called):
        return [NAME]
    path = shown(called)
    return [path if os.sep in path else os.path.join(os.curdir, path)]


@lru_cache(maxsize=1)
def _is_of_this_package(script):
    """Return whether the program beside this Python runs the package that this file is of."""
    packages = sysconfig.get_path("purelib")
    if not (os.path.isfile(script) and IN_A_CHECKOUT):
        return os.path.isfile(script) and ROOT == packages
    from importlib import metadata  # which Python 3.6 lacks

    told = [one.read_text("direct_url.json") for one in metadata.distributions(name=NAME)]
    return any(json.loads(one)["url"] == Path(ROOT).as_uri() for one in told if one)
