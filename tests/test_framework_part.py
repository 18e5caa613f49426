"""What Paddle does inexactly is told and passes; what a port adds of its own fails at its line."""

import pytest
from builders import ended
from ported import FRAMEWORK_PART as PAIR

# Case -> the operator that is named in its rows, the step's and the train mode's own.
NAMED = {
    "interpolate": "Paddle's interpolate computes its weights in float32",
    "batch_norm": "Paddle's batch_norm keeps its epsilon and its momentum in float32",
    "wide_loss": "Paddle's cross_entropy takes no logit for more than 64 below the largest",
    "norms": "Paddle's selu keeps its scale and alpha in float32",
}
RUNS = {
    "forward": (1, (), ("interpolate", "norms")),
    "train mode": (1, ("--mode", "train"), ("interpolate", "norms", "batch_norm")),
    "backward": (4, (), ("interpolate", "norms", "wide_loss")),
}
# Case -> the first row that is wrong.
WRONG = {
    "interpolate": "part",
    "batch_norm": "part.norm:running_mean",
    "graph": "part",
    "experts": "part",
    "wide_loss": "loss",
    "norms": "part.norm",
}


def of_case(report, case):
    """The rows of a case by their key without it."""
    start = f"{case}/"
    found = [row for row in report["rows"] if row["key"].startswith(start)]
    return {row["key"].removeprefix(start): row for row in found}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_what_the_framework_does_is_told_and_passes(checkout, run):
    step, options, cases = RUNS[run]
    done, report = ended(0, checkout.rows(step, "--model", str(PAIR), "--no-report", *options))
    assert report["verdict"] == "CONSTANT"
    for case in cases:
        rows = of_case(report, case).values()
        notes = [row["note"] for row in rows if row["verdict"] == "CONSTANT"]
        assert any(NAMED[case] in note for note in notes), (case, notes)
        assert all("nothing is left of it" in note for note in notes)
    for case in ("graph", "experts", "tiny_gradients"):
        verdicts = {row["verdict"] for row in of_case(report, case).values()}
        assert verdicts <= {"IDENTICAL", "ROUNDING"}, case


@pytest.mark.slow
@pytest.mark.parametrize(("step", "options"), [(1, ("--mode", "train")), (3, ())], ids=str)
def test_what_a_port_adds_fails_at_its_line(checkout, step, options):
    arguments = ("--model", str(PAIR), "--preset", "wrong", "--no-report", *options)
    done, report = ended(1, checkout.rows(step, *arguments))
    seen = 0
    for case, key in WRONG.items():
        rows = of_case(report, f"wrong_{case}")
        if key not in rows or case == "graph" and step == 3:
            continue
        failing = [key for key, row in rows.items() if row["verdict"] in ("DIVERGED", "INVALID")]
        assert failing and failing[0] == key, (case, failing)
        assert rows[key]["origin"], case
        seen += 1
    assert seen >= (5 if step == 1 else 1)
    if step == 1:
        note = of_case(report, "wrong_interpolate")["part"]["note"]
        assert "is left, the port's own" in note
