"""What is left of a step, in seconds: told by parts that take their time on a made-up clock."""

import io
from types import SimpleNamespace

import pytest
from checkout import ROOT
from rich.console import Console

from common.check import twins as twins_module
from common.check.time_left import JUDGING, SETUP, Part, TimeLeft
from common.check_all import all_steps
from common.pair.pairs import load_pair
from common.pair.request import RunRequest
from common.report import terminal
from common.report.terminal import time_in_words
from common.system.frameworks import SIDES

PAIR = ROOT / "tests" / "pairs" / "small_cnn"
MODELS, CASES, SETUPS = ("bert", "resnet"), ("main", "padding", "stirred"), ("adam", "sgd")
# Seconds: of a case and a set-up of each model on torch in float64, and what other runs take of it.
SECONDS = {"bert": (3.0, 12.0), "resnet": (5.0, 20.0)}
SHARE = {"float64": 1.0, "float32": 0.5, "torch": 1.0, "paddle": 1.8}
JUDGED_S = {"bert": 12.0, "resnet": 17.0}


def parts_of_a_step():
    """(part, its seconds) in the order in which step 4 runs them."""
    for side in SIDES:
        for model in MODELS:
            for dtype in ("float64", "float32"):
                share = SHARE[side] * SHARE[dtype]
                case, setup = (seconds * share for seconds in SECONDS[model])
                for number, name in enumerate(CASES):
                    yield Part(side, model, dtype, name), case
                    for each in SETUPS if number == 0 else ():
                        yield Part(side, model, dtype, f"{name} {each}", SETUP), setup
    for model in MODELS:
        yield Part("check", model, "", "", JUDGING), JUDGED_S[model]


def run(expected=lambda part: True):
    """Run that step; (seconds that are left, what was said) at every second from the first word."""
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    parts = list(parts_of_a_step())
    left.expect(part for part, _ in parts if expected(part))
    total, seen = sum(seconds for _, seconds in parts), []
    for part, seconds in parts:
        if part.kind == JUDGING:
            left.end("paddle")
        left.begin(part)
        until = now[0] + seconds
        while now[0] < until:
            now[0] = min(now[0] + 1.0, until)
            said = left.seconds()
            if said is not None:
                seen.append((total - now[0], said))
        if part.side == "check":
            left.end("check")
    return seen


def are_right(seen):
    """Never off by more than half of what is left and 25 s, and near once both sides are known."""
    near = [abs(said - true) <= 0.5 * true + 25.0 for true, said in seen]
    late = [abs(said - true) <= 0.2 * true + 6.0 for true, said in seen if true < 60.0]
    return all(near) and all(late)


def test_what_is_left_is_right_from_the_second_case_on():
    seen = run()
    assert are_right(seen)
    first = SECONDS["bert"][0] + SECONDS["bert"][1]  # a case and a set-up: one of each kind
    assert seen[0][0] >= sum(seconds for _, seconds in parts_of_a_step()) - first - 2.0


@pytest.mark.parametrize("forgotten", ["side", "dtype", "kind"])
def test_an_estimate_that_forgets_parts_is_found(forgotten):
    """Plants one that counts one side alone, one precision alone, or no set-ups."""
    counted = {"side": "torch", "dtype": "float64", "kind": "case"}[forgotten]
    seen = run(lambda part: getattr(part, forgotten) == counted)
    assert not are_right(seen)


def run_at_once(at_once):
    """The same where Paddle has a model behind torch, and judging begins behind torch's last."""
    now = [0.0]
    left = TimeLeft(lambda: now[0], at_once)
    parts = list(parts_of_a_step())
    left.expect(part for part, _ in parts)
    free = dict.fromkeys((*SIDES, "check"), 0.0)
    ends: dict[tuple[str, str], float] = {}  # (who, model) -> when
    events = []
    for part, seconds in parts:
        behind = {"torch": [], "paddle": [("torch", part.model)]}.get(
            part.side, [("paddle", part.model), *(("torch", model) for model in MODELS)]
        )
        begins = max([free[part.side], *(ends[before] for before in behind)])
        free[part.side] = ends[part.side, part.model] = begins + seconds
        events.append((begins, 1, lambda part=part: left.begin(part)))
    for key, at in ends.items():
        events.append((at, 0, lambda key=key: left.end(*key)))
    total, seen = max(free.values()), []
    for at, _, happens in sorted(events, key=lambda event: event[:2]):
        while now[0] + 1.0 < at:
            now[0] += 1.0
            seen.append((total - now[0], left.seconds()))
        now[0] = at
        happens()
    return [(true, said) for true, said in seen if said is not None]


def test_what_is_left_is_right_where_the_sides_work_at_once(monkeypatch):
    """Of four models that take as long as each other, whose runs overlap most."""
    assert are_right(run_at_once(True))
    seconds, judged = dict.fromkeys("abcd", (4.0, 1.0)), dict.fromkeys("abcd", 6.0)
    monkeypatch.setitem(globals(), "MODELS", tuple("abcd"))
    monkeypatch.setitem(globals(), "SECONDS", seconds)
    monkeypatch.setitem(globals(), "JUDGED_S", judged)
    seen = {plan: run_at_once(plan) for plan in (True, False)}
    assert are_right(seen[True])
    off = {plan: sum(abs(said - true) for true, said in seen[plan]) for plan in seen}
    assert off[True] < 0.75 * off[False], "the plan of those who take turns is worse"


def test_it_never_jumps():
    """A side that is slower than the other by far moves what is said step by step."""
    seen = run()
    for (_, before), (_, after) in zip(seen, seen[1:], strict=False):
        assert -0.3 * before - 3.0 <= after - before <= 0.3 * before + 3.0


def test_what_fails_or_is_left_out_is_no_longer_waited_for():
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    left.expect(part for part, _ in parts_of_a_step())
    left.begin(Part("torch", "bert", "float64", "main"))
    assert left.seconds() is None, "nothing was seen yet"
    now[0] = 10.0
    left.end("torch", "bert")
    left.drop("bert")
    left.drop("resnet")
    assert left.seconds() == 0.0


def test_a_run_that_is_repeated_is_waited_for_again():
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    part = Part("paddle", "bert", "float64", "main")
    left.expect([part])
    left.begin(part)
    now[0] = 8.0
    left.end("paddle", "bert")
    left.expect_again("paddle", "bert", "float64")
    assert left.seconds() == pytest.approx(8.0)
    left.begin(part)
    now[0] = 11.0
    assert left.seconds() == pytest.approx(5.0)


def test_step_4_plans_what_its_twins_then_say():
    """Lines as a twin writes them, against the plan of the check: nothing is left over."""
    step = next(step for step in all_steps() if step.number == 4)
    told = []
    inputs = SimpleNamespace(
        step=step,
        options=SimpleNamespace(run=RunRequest()),
        pythons={},
        work=None,
        on_progress=lambda text, left=None: told.append((text, left())),
        brought=set(),
        errors={},
    )
    twins = twins_module.Twins(inputs)
    pair = load_pair(str(PAIR))
    twins._plan([pair])
    planned = len(twins.time_left._expected)
    names = ["main", *(f"main {setup}" for setup in step.setups), "stirred"]
    assert planned == 2 * 2 * len(names) + 1
    for side in SIDES:
        show = twins._show(side)
        for dtype in ("float64", "float32"):
            for name in names:
                show(f"small_cnn {dtype} {name}")
        twins.time_left.end(side, "small_cnn")
    twins.judging(pair)
    assert not twins.time_left._expected
    assert told[0] == ("step 4 torch: small_cnn float64 main", None)
    assert [text for text, left in told if left is None] == [text for text, _ in told[:2]]


def test_the_words(monkeypatch):
    words = {0.2: "1 s", 4.4: "4 s", 38.0: "40 s", 94.0: "90 s", 200.0: "3 min"}
    assert {s: time_in_words(s) for s in words} == {s: f"about {w}" for s, w in words.items()}
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    monkeypatch.setattr(terminal, "_console", lambda stderr=False: console)
    with terminal.progress() as on_progress:
        on_progress("step 4 paddle: bert float32 main sgd", lambda: 41.0)
    assert "step 4 paddle: bert float32 main sgd, about 40 s left" in stream.getvalue()
