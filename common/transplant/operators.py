"""The operators that --transplant can name: the filled table, and the names in an option's text."""

from common.system.errors import UserError
from common.transplant import functional, tensors  # noqa: F401 (they fill the table)
from common.transplant.table import TABLE

ALL = "all"
SMALLEST = "smallest"


def chosen(text: str) -> list[str]:
    """The operators that --transplant names; raises UserError for one that is not known."""
    if text in (ALL, SMALLEST):
        return list(TABLE)
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = ", ".join(sorted(set(names) - set(TABLE)))
    if unknown or not names:
        raise UserError(
            f"--transplant {text}: {unknown or 'nothing'} is no operator that can be transplanted; "
            f"these can: {', '.join(sorted(TABLE))}; or {ALL}, or {SMALLEST}"
        )
    return list(dict.fromkeys(names))
