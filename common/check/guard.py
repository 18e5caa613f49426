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
from twincheck.common.system.reasons import Kind
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
        file = str(error.filename or "") or _no_file(error)
        report.say_error(Kind.SYSTEM_ERROR(error=error.strerror or str(error), file=file))
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # what was being written is open
            _say_stopped(error.__context__, hint)
            return 2
        if debug:
            raise
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if not frame.filename.startswith("<frozen")][-1]
        place = f"{frame.filename}:{frame.lineno}"
        if isinstance(error, ModuleNotFoundError):
            what = {"module": str(error.name), "python": str(sys.executable)}
            report.say_error(Kind.MODULE_MISSING(place=place, **what))
            return 2
        name = type(error).__name__
        report.say_error(Kind.INTERNAL_ERROR(place=place, type=name, error=str(error)))
    return 2


def _say_stopped(error: KeyboardInterrupt, hint: str) -> None:
    by = isinstance(error, Stopped)
    said = Kind.STOPPED_BY(signal=str(error), hint=hint) if by else Kind.STOPPED(hint=hint)
    report.say_error(said)


def _no_file(error: OSError) -> str:
    """What a system's error that names no file is about."""
    try:
        os.getcwd()
    except OSError:
        return Kind.START_FOLDER_GONE()
    if error.errno in (errno.ENOSPC, errno.EIO):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor at the end
        return Kind.STANDARD_OUTPUT()
    return Kind.NO_FILE_NAMED()
