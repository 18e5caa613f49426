"""The one exception that users see as a sentence: what was wrong, where, and what to do."""


class UserError(Exception):
    """Bad input.  Commands print the sentence and exit with status 2, without a traceback."""
