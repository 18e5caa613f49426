"""The operators that --transplant can name: the filled table, and the names in an option's text."""

from common.system.errors import UserError
from common.system.words import did_you_mean
from common.transplant import functional, tensors  # noqa: F401 (they fill the table)
from common.transplant.table import TABLE

ALL = "all"
SMALLEST = "smallest"


def chosen(text: str) -> list[str]:
    """The operators that --transplant names; raises UserError for one that is not known."""
    if text in (ALL, SMALLEST):
        return list(TABLE)
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = sorted(set(names) - set(TABLE))
    if wrong or not names:
        meant = did_you_mean(wrong[0], [*TABLE, ALL, SMALLEST]) if wrong else ""
        raise UserError(
            f"--transplant {text}: {', '.join(wrong) or 'nothing'} is no operator that can be "
            f"transplanted; these can: {', '.join(sorted(TABLE))}; or {ALL}, or {SMALLEST}{meant}"
        )
    return list(dict.fromkeys(names))
