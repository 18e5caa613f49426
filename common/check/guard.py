"""Whatever goes wrong in a command is one sentence and exit status 2."""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress

from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import fill_standard_streams
from twincheck.common.system.signals import Stopped, stoppable


def guarded(debug: bool, action: Callable[[], int], hint: str = "") -> int:
    """Run a command; whatever goes wrong is one sentence and exit status 2.

    debug   raise what nobody foresaw, for its traceback
    hint    what to add where the user stopped it
    """
    fill_standard_streams()
    # What overflows or is NaN is a row's verdict.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    try:
        with stoppable():
            return action()
    except UserError as error:
        report.say_error(str(error))
    except KeyboardInterrupt as error:
        _say_stopped(error, hint)
    except BrokenPipeError:  # nobody reads on; nor may Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        report.say_error(f"{error.strerror or error}: {error.filename or _no_file(error)}")
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # what was being written is open
            _say_stopped(error.__context__, hint)
            return 2
        if debug:
            raise
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if not frame.filename.startswith("<frozen")][-1]
        if isinstance(error, ModuleNotFoundError):
            report.say_error(
                f"{frame.filename}:{frame.lineno} needs {error.name}, which {sys.executable} has "
                "not: install it there"
            )
            return 2
        report.say_error(
            f"internal error at {frame.filename}:{frame.lineno}: {type(error).__name__}: {error}; "
            "--debug shows the traceback"
        )
    return 2


def _say_stopped(error: KeyboardInterrupt, hint: str) -> None:
    word = f" by {error}" if isinstance(error, Stopped) else ""
    report.say_error(
        f"stopped{word}: what was finished is in its place, all else is as it was before{hint}"
    )


def _no_file(error: OSError) -> str:
    """What a system's error that names no file is about."""
    try:
        os.getcwd()
    except OSError:
        return "the folder that this was started in is gone; start it from another"
    if error.errno in (errno.ENOSPC, errno.EIO):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor at the end
        return "standard output"
    return "no file named"
