"""The kinds of runs: one word each, in code, in the names of files, in JSON and on pages."""

from enum import Enum


class RunKind(str, Enum):
    """A kind of run; its value is what the name of its log has behind the side."""

    PLAIN = ""  # in float32
    FLOAT64 = "_fp64"
    TEACHER_FORCED = "_fp64_teacher_forced"  # every module is fed torch's values
    EXACT = "_fp64_exact"  # the same, with Paddle's inexact operators computed exactly
    FREE = "_fp64_free"  # fed nothing, with those operators computed exactly
    NOISE = "_fp64_noise"  # how far rounding moves each of torch's tensors
    MOVED = "_fp64_moved"  # one of the runs that this is measured by
    ROUNDED = "_fp64_rounded"  # torch's, with its constants rounded to float32
    WHOLE = "_fp64_whole"  # torch's again, all tensors whole
    TRACED = "_fp64_traced"  # with every operator's call kept; while it is needed
    AGAIN1 = "_again1"  # Paddle's float32 run from a start beside its own
    AGAIN2 = "_again2"
    AGAIN3 = "_again3"
    UNFORCED = "_unforced"  # goes on with its own discrete choices
    HALF_STEP = "_half_step"  # in half precision, every module fed torch's values in it
    HALF_STEP64 = "_fp64_half_step"  # in float64, fed the same

    @property
    def word(self) -> str:
        """Return the name that people, JSON and options have of the run."""
        return self.name.lower().rstrip("123")

    __hash__ = str.__hash__  # a log's name, read, has text
    __str__ = str.__str__
    __format__ = str.__format__


AGAIN = (RunKind.AGAIN1, RunKind.AGAIN2, RunKind.AGAIN3)
FED = (RunKind.TEACHER_FORCED, RunKind.EXACT, RunKind.HALF_STEP, RunKind.HALF_STEP64)
EXACTLY = (RunKind.EXACT, RunKind.FREE)
