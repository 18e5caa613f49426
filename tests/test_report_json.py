"""--json and the report of `make check`: all that is promised, and small enough to be opened."""

import json

import pytest

from twincheck.common.check.report_json import _NOW_AND_THEN, PROMISED, report_text
from twincheck.common.check.result import Result
from twincheck.common.check_all import all_steps
from twincheck.common.verdict.row import Row

COUNT = 1000


def result() -> Result:
    """Rows like those of a step, one of them wrong."""
    rows = []
    for i in range(COUNT):
        key = f"main/encoder.layers.{i:04d}.attention.output:in/0"
        row = Row(key, "ROUNDING", i / 3e9, i / 3e8)
        row.guide_passed, row.gap, row.allowed = True, i / 3e17, i / 3e14
        row.noise_ref, row.noise_cand, row.scale = i / 3e8, i / 7e8, i / 7
        row.difference, row.noise = i / 3e10, i / 7e10
        row.measure, row.size, row.shape = "rms", 1152, (3, 2, 4, 48)
        row.step, row.model = 1, "reformer"
        rows.append(row)
    rows[7].verdict, rows[7].origin, rows[7].worst_index = "DIVERGED", True, (0, 1)
    rows[7].fed = "yes"
    rows[8].mean_abs = float("nan")
    return Result(all_steps()[0], "reformer", rows=rows)


def test_a_short_report_has_what_is_promised_and_all_of_what_is_wrong():
    documents = []
    for short in (True, False):
        text = report_text([result()], short=short, texts={"torch": "a"})
        documents.append(json.loads(text))
    brief, full = documents
    assert brief["verdict"] == full["verdict"] == "DIVERGED" and brief["exit_code"] == 1
    assert brief["first_diverged"] == full["rows"][7]["key"] and brief["texts"] == {"torch": "a"}
    assert brief["rows"][7] == full["rows"][7]
    (said,) = brief["guide"]
    assert said["step"] == 1 and said["model"] == "reformer" and said["guide_passed"] is None
    for one, other in zip(brief["rows"], full["rows"], strict=True):
        assert set(PROMISED) <= set(one)
        for name in ("mean_abs", "max_abs"):
            close = None if other[name] is None else pytest.approx(other[name], rel=1e-6)
            assert one[name] == close
    assert brief["rows"][8]["mean_abs"] is None
    assert set(full["rows"][0]) == {*Row.__slots__, "note", "excuse"} - set(_NOW_AND_THEN)
    assert full["rows"][7]["fed"] == "yes" and "fed" not in full["rows"][8]
