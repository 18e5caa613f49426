"""One part of a bundle: what one step left of one model, and the names of the files in it.

    evidence/STEP/MODEL/rows.jsonl      every row, as --json has it, with the stem of its logs
    evidence/STEP/MODEL/made.jsonl      what was made of each tensor, where that is not its row:
                                        all rows together may have made another of it
    evidence/STEP/MODEL/inside.jsonl    which of these rows have their tensors here
    evidence/STEP/MODEL/scales.json     S of the groups of tensors that these rows belong to
    evidence/STEP/MODEL/STEM_SIDE….npy  the logs: whole where they are small, else those tensors
    evidence/STEP/MODEL/STEM_SIDE….json their sidecars as they were, which describe the whole logs

Which rows are inside is no choice of the author's: all that do not agree, those that the guide asks
for, those that used most of what they were allowed, the flips, and a sample that is drawn by the
hash of all rows.  A tensor is never cut: a row whose tensors are too large is left out, and listed.
NumPy only.
"""

import hashlib
from collections.abc import Iterable, Mapping

from twincheck.common.system import json_kinds as kinds
from twincheck.common.verdict.comparisons import LOGITS, OWN, RUNS, SKETCH
from twincheck.common.verdict.row import AGREEING
from twincheck.extras.bundle import Kind
from twincheck.extras.shared.rows import FIELDS

EVIDENCE, SUBMISSION, TRAINING, REPORTS = "evidence", "submission", "training", "reports"
ROWS, MADE, INSIDE, SCALES = "rows.jsonl", "made.jsonl", "inside.jsonl", "scales.json"

WORST = 10  # rows of a step of a model that used most of what they were allowed
MOST_TRIED = 3  # times that: where the first are too large, the next are taken
SAMPLED_SIZE = 2_000  # values of a tensor: a few large ones would be the whole sample
# Why a row is inside, in the order in which they are taken.
NOT_GREEN, GUIDE, MOST_USED = "not green", "the guide's", "most used"
LARGEST, SAMPLE, WHOLE = "largest of its kind", "sample", "whole log"

Place = tuple[str, str]  # stem and key of a row


def place_of(row: Mapping[str, object]) -> Place:
    """Return what names a row within its part: its stem and its key."""
    return str(row["stem"]), str(row["key"])


def not_green(rows: Iterable[Mapping[str, object]]) -> list[Place]:
    """The rows that are no plain agreement, in their order: flips and excused ones too."""
    return [place_of(r) for r in rows if r["stem"] and r["verdict"] not in AGREEING]


def most_used(rows: Iterable[Mapping[str, object]]) -> list[Place]:
    """Of the other rows those to be tried, that which used most of what it was allowed first."""
    shares = [
        (-row["gap"] / row["allowed"], *place_of(row))
        for row in rows
        if row["stem"] and row["verdict"] in AGREEING and row["gap"] and row["allowed"]
    ]
    return [(stem, key) for _, stem, key in sorted(shares)[: MOST_TRIED * WORST]]


def drawn(rows: Iterable[Mapping[str, object]], content: bytes) -> list[Place]:
    """The rows that may be in a sample, in the order in which it takes them; large ones are not.

    content   that of the rows' file, whose hash draws the sample
    """
    seed = hashlib.sha256(content).hexdigest()
    places = [place_of(row) for row in rows if row["stem"] and row["size"] <= SAMPLED_SIZE]
    return sorted(places, key=lambda p: hashlib.sha256(f"{seed} {p[0]} {p[1]}".encode()).digest())


# ---- what stands in a line of each file, or in all of it ----------------------------------------


def _is_shape(value: object) -> bool:
    fits = isinstance(value, list) and list(map(type, value)) == [str, str, list]
    return fits and all(map(kinds.length, value[2]))


def _is_scale(value: object) -> bool:
    fits = isinstance(value, list) and len(value) == 2 and value[0] is not None
    return fits and kinds.number_or_null(value[0]) and kinds.or_null(kinds.text)(value[1])


is_row = kinds.record(FIELDS | {"stem": kinds.text})
_OWN_ROW = kinds.record(FIELDS)
is_made = kinds.record(
    {OWN: _OWN_ROW},
    dict.fromkeys(RUNS, _OWN_ROW)
    | {SKETCH: kinds.list_of(kinds.number_or_null), LOGITS: lambda value: value is True},
)
is_inside = kinds.record(
    dict.fromkeys(("stem", "key", "why"), kinds.text), {"shapes": kinds.list_of(_is_shape)}
)
are_scales = kinds.dict_of(kinds.dict_of(_is_scale))


class Odd(Exception):
    """JSON of somebody else that is not as a bundle has it, in a sentence."""


def must(holds: object, kind: Kind, /, **fields: object) -> None:
    """Go on only where this holds: what follows could make nothing of it else."""
    if not holds:
        raise Odd(kind(**fields))


def member(record: Mapping, name: str, kind: type):
    """Return what stands under a name of a record, which must be of this type."""
    value = record.get(name)
    must(type(value) is kind, Kind.MEMBER_NOT_OF_A_BUNDLE, member=name)
    return value
