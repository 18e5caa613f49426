"""A command's parser, and its guard: what goes wrong is one sentence and exit status 2."""

import argparse
import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from twincheck.common.system.door import NAME, in_help
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language, languages
from twincheck.common.system.files import fill_standard_streams
from twincheck.common.system.reasons import Kind
from twincheck.common.system.signals import Stopped, stoppable
from twincheck.common.system.start import speak
from twincheck.common.system.words import escaped


class Parser(argparse.ArgumentParser):
    """A command's parser: its description as it is written, and --lang.

    What is wrong with a command line is one sentence and exit status 2.
    """

    def __init__(self, description: str | None, command: str = "", prog: str | None = None):
        super().__init__(
            prog=f"{NAME} {command}" if command else prog,
            description=description,
            formatter_class=next(
                (one.Help for one in languages()), argparse.RawDescriptionHelpFormatter
            ),
            allow_abbrev=False,  # --mode is no short --model where a check has no modes
        )
        self.add_argument("--lang", choices=("en", "zh"), help=Kind.OPTION_LANG())

    def parse_known_args(self, args=None, namespace=None) -> tuple:
        """Parse a command line, whose --lang says how what is wrong with it is told."""
        speak(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End with one sentence on what was typed, and status 2."""
        asked = in_help(f"{self.prog} --help")
        say_error(Kind.COMMAND_LINE_REFUSED(why=escaped(message), help=asked))
        self.exit(2)

    def format_help(self) -> str:
        """Return the help, with its commands as they are typed here."""
        return in_help(super().format_help())


def say(text: str) -> None:
    """Print a line, where rich may be missing."""
    print(in_language(text), flush=True)


def say_error(sentence: str) -> None:
    """Print one sentence on standard error."""
    line = in_language(Kind.ERROR_SAID(sentence=sentence))
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        mark = in_language(Kind.ERROR_SAID(sentence="")).rstrip()
        line = f"\x1b[31m{mark}\x1b[m{line.removeprefix(mark)}"
    print(line, file=sys.stderr)


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
        say_error(str(error))
    except KeyboardInterrupt as error:
        _say_stopped(error, hint)
    except BrokenPipeError:  # nobody reads on; nor may Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        file = str(error.filename or "") or _no_file(error)
        say_error(Kind.SYSTEM_ERROR(error=error.strerror or str(error), file=file))
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
            say_error(Kind.MODULE_MISSING(place=place, **what))
            return 2
        name = type(error).__name__
        say_error(Kind.INTERNAL_ERROR(place=place, type=name, error=str(error)))
    return 2


def _say_stopped(error: KeyboardInterrupt, hint: str) -> None:
    by = isinstance(error, Stopped)
    said = Kind.STOPPED_BY(signal=str(error), hint=hint) if by else Kind.STOPPED(hint=hint)
    say_error(said)


def _no_file(error: OSError) -> str:
    """Name what a system's error is about that names no file."""
    try:
        os.getcwd()
    except OSError:
        return Kind.START_FOLDER_GONE()
    if error.errno in (errno.ENOSPC, errno.EIO):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor at the end
        return Kind.STANDARD_OUTPUT()
    return Kind.NO_FILE_NAMED()
