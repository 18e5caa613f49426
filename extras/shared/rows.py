"""A row as a file has it that somebody else may have written: of which kind each entry must be."""

from dataclasses import fields

from twincheck.common.logs import entry_kinds as kinds
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import SEVERITY, Row

_OF_TYPE = {
    str: kinds.text,
    bool: kinds.yes_or_no,
    bool | None: kinds.or_null(kinds.yes_or_no),
    int: kinds.whole,
    int | None: kinds.or_null(kinds.whole),
    float | None: kinds.number_or_null,
    tuple[int, ...]: kinds.list_of(kinds.whole),
    tuple[int, ...] | None: kinds.or_null(kinds.list_of(kinds.whole)),
    tuple[Kind, ...]: kinds.list_of(lambda value: str(value) in Kind.__members__),
    tuple[str, ...]: kinds.list_of(lambda value: isinstance(value, dict)),
    object: lambda value: True,
}
FIELDS = {one.name: _OF_TYPE[one.type] for one in fields(Row)}
FIELDS |= {"verdict": SEVERITY.__contains__, "excuse": kinds.text, "note": kinds.text}
