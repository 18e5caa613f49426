"""The one exception that users see as a sentence: what was wrong, where, and what to do."""


class UserError(Exception):
    """Bad input.  Commands print the sentence and exit with status 2, without a traceback."""


class LogError(UserError):
    """A file that is no log, in one sentence with the file's name and what was found in it."""


class LostProcess(UserError):
    """A process that others share a run with is gone; why, it says itself, or how it ended."""
