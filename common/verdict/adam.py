"""The steps of an optimizer, in the keys of a log."""

from common.logs.key import Key

THROUGH_ADAM = "noise through Adam"  # the excuse of a row


def step_of(key: Key) -> int | None:
    """The number of the optimizer step that a key is of, from 0; None for no step."""
    last = key.run.rstrip("/").rpartition("/")[2]
    return int(last) if last.isdecimal() else None
