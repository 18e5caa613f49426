"""What is wrong with a row, in one sentence before any number."""

from collections.abc import Collection

from common.logs.key import Key, parent_of
from common.logs.pickle_machine import printable
from common.verdict.row import Row

_KINDS = {
    "weight": "the weight",
    "grad": "the gradient of",
    "moment1": "the first moment of",
    "moment2": "the second moment of",
    "velocity": "the velocity of",
}


def what_is_wrong(row: Row, class_name: str = "", cases: Collection[str] = ()) -> str:
    """One sentence on a row that does not pass.

    class_name  of the module that a probed value belongs to, as the torch side names it
    """
    if row.measure == "claim":
        return f"{_last_word(row.key)}'s own numbers contradict each other"
    if row.verdict == "INVALID":
        return row.note or "it cannot be compared"
    if row.verdict == "PRECISION":
        return "the same function, but Paddle's float32 is much less exact here"
    if row.verdict == "CARRIED":
        return "only what it was fed is wrong"
    key = Key.parse(row.key, cases)
    site = printable(key.site)
    named = f"{site} ({class_name})" if class_name else site
    if key.choice:
        return f"the {key.choice} that {site} chooses by are other numbers"
    if key.is_step:
        what = f"{_KINDS.get(key.kind, 'the')} {site}"
        return f"{what} is off after {_step(key.run)}"
    if key.kind == "grad":
        return f"the gradient of {site} is off"
    if key.kind == "grad_of":
        if key.is_input:
            return f"{named} hands another gradient back to what it was given"
        return f"another gradient comes back to what {named} gave"
    if key.is_input:
        around = parent_of(site.partition("/")[0]) or "the model itself"
        return f"{named} is given other values: look at the code of {printable(around)} before it"
    if row.inside:
        return f"{named} computes something else from the same input"
    if site == "loss" or site.startswith("losses/"):
        return "the loss is off"
    return f"the model's {site} is off"


def _step(run: str) -> str:
    """`adam/003/` as a reader counts."""
    name, _, number = run.rstrip("/").rpartition("/")
    number = str(int(number) + 1) if number.isdecimal() else number
    return f"step {number} of {printable(name)}" if name else f"step {number}"


def _last_word(key: str) -> str:
    side = key.rpartition("/")[2]
    return f"the {side} side" if side in ("torch", "paddle") else "one side"
