"""Which run a check gets next, and how often: the cheapest that shows more, each one once."""

from types import SimpleNamespace

import pytest

from twincheck.common.check import further
from twincheck.common.pair.task import label
from twincheck.common.verdict.row import Row

FAILS = "it failed"


class Made:
    """Stands for the sides' processes: notes what they are asked for."""

    def __init__(self, fails=""):
        self.runs, self.stepping, self.fails = [], {}, fails

    def look_closer(self, task, pair, passes):
        if not list(passes) or label(task) in self.runs:
            return None
        return self.runs.append(label(task)) or ""

    def teacher_forced(self, pair, exact=False):
        return self.runs.append("exact" if exact else "teacher forced") or self.fails


def judged(harmless=False, **asks):
    usual = dict.fromkeys(("asks_noise", "asks_again"), ()) | {"asks_exact": 0, "asks_free": 0}
    rows = [Row("main/a", "ROUNDING" if harmless else "DIVERGED")]
    return SimpleNamespace(harmless=harmless, rows=rows, cases=("main/",), **usual | asks)


@pytest.mark.parametrize(
    ("judgements", "fails", "runs"),
    [
        ([judged(True)], "", []),
        ([judged(True, asks_again=[("main", "")])], "", ["again"]),
        ([judged(True), judged()], "", ["teacher forced"]),
        ([judged(asks_exact=1), judged(asks_free=1)], "", ["teacher forced", "exact", "free"]),
        ([judged(asks_exact=1, asks_free=1)], FAILS, ["teacher forced"]),
        (
            [judged(asks_noise=[("main", "")], asks_again=[("main", "")], asks_exact=1)],
            *("", ["noise", "again", "teacher forced", "exact"]),
        ),
    ],
)
def test_what_a_judgement_asks_for_is_got_once(monkeypatch, judgements, fails, runs):
    made, notes = Made(fails), []
    monkeypatch.setattr(
        further, "run_with_exact_operators", lambda workers, *_: workers.runs.append("free")
    )
    more = further.Further(made, SimpleNamespace(name="pair"), None, notes)
    found = dict(enumerate(judgements))
    assert more.until == {"until_off": True}
    while more.got(found):
        pass
    assert made.runs == runs
    assert [FAILS in note for note in notes] == [True] * bool(fails)
    if "teacher forced" in runs:
        assert more.until == {"until_asked": "exact" not in runs and not fails}
        assert made.stepping == {"pair": ("main",)}
