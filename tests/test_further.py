"""Which run a check gets next, and how often: the cheapest that shows more, each one once."""

from types import SimpleNamespace

import pytest

from twincheck.common.check import further
from twincheck.common.pair.task import label
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.needs import Need
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


def judged(**needs):
    """A judgement of one row that needs these runs, for all passes of its case."""
    needs = {run: Need("main/a", passes) for run, passes in needs.items()}
    return SimpleNamespace(rows=[Row("main/a", "DIVERGED")], cases=("main/",), needs=needs)


MAIN = (("main", ""),)


@pytest.mark.parametrize(
    ("judgements", "fails", "runs"),
    [
        ([judged()], "", []),
        ([judged(again=MAIN)], "", ["again"]),
        ([judged(), judged(teacher_forced=())], "", ["teacher forced"]),
        ([judged(teacher_forced=()), judged(again=MAIN)], "", ["again", "teacher forced"]),
        ([judged(exact=()), judged(free=())], "", ["exact", "free"]),
        ([judged(exact=(), free=())], FAILS, ["exact"]),
        ([judged(teacher_forced=())], FAILS, ["teacher forced"]),
        ([judged(again=MAIN, noise=MAIN, exact=())], "", ["exact", "noise", "again"]),
    ],
)
def test_what_a_judgement_asks_for_is_got_once(monkeypatch, judgements, fails, runs):
    made, notes = Made(fails), []
    monkeypatch.setattr(
        further, "run_with_exact_operators", lambda workers, *_: workers.runs.append("free")
    )
    more = further.Further(made, SimpleNamespace(name="pair"), None, notes)
    found = dict(enumerate(judgements))
    while more.got(found):
        pass
    assert made.runs == runs
    assert [FAILS in note for note in notes] == [True] * bool(fails)
    assert [one.kind for one in more.way] == [Kind.RUN_FAILED if fails else Kind.RUN_MADE] * len(
        runs
    )
    if "teacher forced" in runs:
        assert made.stepping == {"pair": ("main",)}
    assert not {run.replace(" ", "_") for run in runs} & more.obtainable - {"noise", "again"}
