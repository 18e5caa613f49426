"""A row as a file has it that somebody else may have written: of which kind each entry must be."""

from dataclasses import fields

from twincheck.common.system import json_kinds as kinds
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import SEVERITY, Row

_OF_TYPE = {
    float | None: kinds.number_or_null,
    tuple[Kind, ...]: kinds.list_of(lambda value: str(value) in Kind.__members__),
    tuple[str, ...]: kinds.list_of(lambda value: isinstance(value, dict)),
    object: lambda value: True,
}
FIELDS = {one.name: _OF_TYPE.get(one.type) or kinds.check_of(one.type) for one in fields(Row)}
FIELDS |= {"verdict": SEVERITY.__contains__, "excuse": kinds.text, "note": kinds.text}
