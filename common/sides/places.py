"""Lines of code as places: which are the user's, and how they are written."""

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import is_ours
from twincheck.common.system.intercept import Intercept
from twincheck.common.system.reasons import Kind

_COMMON = f"{ROOT.as_posix()}/common/"
_MODELS = f"{_COMMON}models/"
STEPS = tuple(f"{path.as_posix()}/" for path in (*ROOT.glob("step[1-5]_*"), ROOT / "extras"))
# They stand before Paddle's own functions.
_EXACT = tuple(f"{ROOT.as_posix()}/{name}/" for name in ("common/transplant", "extras/bits"))
_MADE_AT = "_built_at"
# Paddle's published models are models, though they come with the framework.
# And what Paddle writes of a forward, for a static graph of it, is no file of anybody's.
_FRAMEWORK_FILE = re.compile(
    r"/(site|dist)-packages/(torch|paddle(?!/vision/models/)|numpy)/|/paddle/to_static_tmp/"
)


def of_framework_file(filename: str) -> bool:
    """True for the frameworks' own files, unlike those of models that are installed."""
    path = filename.replace("\\", "/")
    return path.startswith(_EXACT) or bool(_FRAMEWORK_FILE.search(path))


@cache
def is_instrument(filename: str) -> bool:
    """True for the frameworks' files and the workbench's own, which no user wants to be sent to.

    The workbench's own are known by where they are: a user's folder may be called `common` too.
    """
    path = filename.replace("\\", "/")
    own = path.startswith(_COMMON) and not path.startswith(_MODELS)
    return own or of_framework_file(path) or path.startswith("<")


@cache
def is_models(filename: str) -> bool:
    """True for a model's file: no instrument, no step's, none of Python's own library."""
    path = filename.replace("\\", "/")
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    of_python = filename.startswith(libraries) and "-packages" not in filename
    return not (is_instrument(filename) or path.startswith(STEPS) or of_python)


def place_of_error(error: Exception) -> str:
    """Return file:line of the model where an exception happened; empty where none is known."""
    if isinstance(error, SyntaxError) and error.filename:  # not where that file is imported
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not of_framework_file(frame.filename)
    ]
    # What stands in a framework's place, such as an emulated operator, is not where it happened.
    own = [f for f in frames if not (is_instrument(f.filename) or f.filename.startswith(STEPS))]
    frames = frames if is_ours(error) else own or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def error_sentence(error: Exception) -> str:
    """Return one line of an exception, with the line of the model where it happened."""
    name, place = type(error).__name__, place_of_error(error)
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
    # Paddle ends a long C++ report with the sentence that matters.
    text = next((line for line in lines if "Error:" in line), lines[0]).strip()[:300]
    if isinstance(error, SyntaxError) and error.filename:
        text = str(error.msg)
    if not place:
        return Kind.EXCEPTION(exception=name, text=text)
    return Kind.EXCEPTION_AT(exception=name, place=place, text=text)


@contextmanager
def noting_makers(module: type) -> Iterator[None]:
    """Inside, each module keeps the lines of the model that make it, which `makers` gives.

    module  the framework's class of them all
    """

    def made(own, arguments, options):
        own(*arguments, **options)
        vars(arguments[0])[_MADE_AT] = _lines_of_model()

    with Intercept(module, {"__init__": made}):
        yield


def makers(module: object) -> list[tuple[str, dict[str, float]]]:
    """file:line of the model that made a module, and of each call that led there, outwards.

    With the plain numbers that the function around the line was given, by name.
    """
    return getattr(module, "__dict__", {}).get(_MADE_AT, [])


def running_layer() -> object | None:
    """Return the framework's layer whose code runs; None where the model's own called."""
    frame = sys._getframe(1)
    while frame is not None and is_instrument(frame.f_code.co_filename):
        layer = frame.f_locals.get("self")
        if _MADE_AT in getattr(layer, "__dict__", ()):
            return layer
        frame = frame.f_back
    return None


def _lines_of_model() -> list[tuple[str, dict[str, float]]]:
    frame, found = sys._getframe(1), []
    while frame is not None:
        code, file = frame.f_code, frame.f_code.co_filename
        if file.startswith(STEPS) or found and is_instrument(file) and not of_framework_file(file):
            break  # it was the workbench that built the model
        if not is_instrument(file):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            given = {name: frame.f_locals.get(name) for name in names}
            plain = {n: v for n, v in given.items() if type(v) in (int, float)}
            # JSON has neither infinity nor NaN.
            numbers = {n: float(v) for n, v in plain.items() if abs(v) <= sys.float_info.max}
            found.append((f"{file}:{frame.f_lineno}", numbers))
        frame = frame.f_back
    return found


def line_of_model() -> str:
    """The line of the model that led here; empty where a step's script did by itself."""
    frame = sys._getframe(1)
    while frame is not None and is_instrument(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(STEPS):
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
