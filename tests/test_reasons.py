"""Reasons: kinds with fields, whose sentences are made from one template each."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from tools import sentences as lint
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind, is_of, kinds_of, read_reason

EXTRAS = Path(__file__).resolve().parent.parent / "extras"
NESTED = Kind.INSIDE_BECAUSE(
    why=Kind.INSIDE_SHAPE(), notes=[Kind.SHAPES_DIFFER(torch=(2, 3), paddle=()), "as written"]
)


def test_a_reason_is_its_sentence():
    assert (
        NESTED == "other shape: shape (2, 3) on the torch side, () on the paddle side; as written"
    )
    assert f"{NESTED}" == str(NESTED) and json.dumps(NESTED)[1:-1] == NESTED
    assert str(UserError(NESTED)).kind is Kind.INSIDE_BECAUSE, (
        "an error keeps what it was raised with"
    )
    assert is_of(NESTED, Kind.INSIDE_BECAUSE) and not is_of(NESTED + "", Kind.INSIDE_BECAUSE)


VALUES = {str: "of 3", int: 3, float: float("-inf"), tuple: (2, 3), object: None}


@pytest.mark.parametrize("value", [0, None, "2016x", [1, "b"]])
def test_every_kind_comes_back(value):
    """Anything may stand in a field that is printed as Python prints it."""
    names = [path.parent.name for path in EXTRAS.glob("*/reasons.toml")]
    lists = [Kind, *(import_module(f"twincheck.extras.{name}").Kind for name in names)]
    for kind in (kind for one in lists for kind in one):
        joined = re.findall(r"{(\w+):(?:and|or|comma|space|lines|dots|listed)}", kind.template)
        fields = {n: ["a", "b"] if n in joined else VALUES[of] for n, of in kind.fields.items()}
        fields |= dict.fromkeys(re.findall(r"{(\w+)!r", kind.template), value)
        told = read_reason(json.loads(json.dumps(kind(**fields).as_json(), allow_nan=False)))
        assert told == kind(**fields) and told.fields == fields


def test_fields_are_counted_joined_and_checked(tmp_path):
    (tmp_path / "own.toml").write_text(
        "# ---- of a test\n"
        'ROWS = "{count:row|rows} of {size:,}"\n'
        'NAMES = "{names:and} at {x:.1e}"\n'
    )
    own = kinds_of("own", tmp_path / "own.toml")
    assert own.ROWS(count=1, size=2048) == "1 row of 2,048"
    assert own.ROWS(count=3000, size=0) == "3,000 rows of 0"
    assert own.NAMES(names=["a", "", "b"], x=1e-3) == "a and b at 1.0e-03"
    assert own.ROWS.fields == {"count": int, "size": int}
    for fields in ({}, {"count": 1}, {"count": 1, "size": 2, "more": 3}):
        with pytest.raises(TypeError):
            own.ROWS(**fields)
    # Of an extra's kind, which another process may not know, the sentence is kept too.
    told = own.ROWS(count=1, size=2).as_json()
    assert read_reason(told).kind is own.ROWS
    assert read_reason(told | {"list": "of_another"}) == told["english"] == "1 row of 2"
    (tmp_path / "twice.toml").write_text('ROWS = "again"\n')
    with pytest.raises(ValueError, match="ROWS"):
        kinds_of("own", tmp_path / "own.toml", tmp_path / "twice.toml")


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "ALL_ZERO", "more": 1},
        {"kind": "CAPPED"},
        {"kind": "CAPPED", "count": "x", "cap": 1},
    ],
)
def test_a_file_with_other_fields_is_no_reason(told):
    with pytest.raises(ValueError):
        read_reason(told)


def test_the_lint_finds_a_sentence_and_a_kind_that_nothing_gives(tmp_path):
    rooms = tmp_path / "common" / "verdict"
    rooms.mkdir(parents=True)
    (tmp_path / "common/report/reasons").mkdir(parents=True)
    (tmp_path / "common/report/reasons/some.toml").write_text('USED = "a"\nUNUSED = "b"\n')
    source = '"""A docstring is no sentence for people."""\nx = f"the {1} is wrong"\n'
    (rooms / "some.py").write_text(source + "y = Kind.USED(), Kind.ABSENT(), 'a name'\n")
    found = "\n".join(lint.problems(tmp_path))
    assert "some.py:2: a sentence outside report/: 'the X is wrong'" in found
    assert "ABSENT is no kind of" in found and "nothing gives UNUSED" in found
    assert found.count("\n") == 2
