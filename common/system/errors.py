"""The one exception that users see as a sentence: what was wrong, where, and what to do.

And which others are the workbench's own.
"""

import dis

from twincheck.common.system.checkout import ROOT

_OWN = tuple(f"{path.as_posix()}/" for path in (*ROOT.glob("step[1-5]_*"), ROOT / "extras"))
_OWN += (f"{ROOT.as_posix()}/common/",)
# Of these the first are models, and the other calls what a framework has.
_NOT_OWN = tuple(f"{_OWN[-1]}{path}" for path in ("models/", "system/intercept.py"))


class UserError(Exception):
    """Bad input.  Commands print the sentence and exit with status 2, without a traceback."""


class LogError(UserError):
    """A file that is no log, in one sentence with the file's name and what was found in it."""


def is_ours(error: Exception) -> bool:
    """True for a crash of the workbench's own code, whatever it is that ran.

    What it raises by itself is none, and what it calls in compiled code is its own.
    """
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    path = code.co_filename.replace("\\", "/")
    raised = dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
    own = path.startswith(_OWN) and not path.startswith(_NOT_OWN)
    return own and not raised and not isinstance(error, OSError | MemoryError)
