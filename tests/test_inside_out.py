"""What other people's models do inside: complex values, gradients of gradients, buffers, NaN."""

import numpy as np
import pytest
from builders import PAIRS, ended, judged

from twincheck.common.verdict.context import Context
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.tensor import judge_tensor

PAIR = PAIRS / "inside_out"


def check(checkout, step, *options):
    return judged(checkout, step, PAIR, *options)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, 4])
def test_a_correct_port_passes(checkout, step):
    """The loss of steps 3 and 4 differentiates the model; its labels are floats."""
    done, rows = ended(0, check(checkout, step, *(["--mode", "train"] if step == 1 else [])))
    if step == 1:
        assert rows["spectrum"]["shape"] == [3, 6, 5, 2], "real and imaginary parts"
        assert rows["buffer/table:built"]["verdict"] in ("ROUNDING", "IDENTICAL")
        assert "buffer/centred.mean:built" in rows and "buffer/centred.mean" in rows
        assert "buffer/table" not in rows, "no forward changes it"
    if step == 4:
        assert {"grad_of/spectrum", "grad/filter", "grad/inputs/x"} <= rows.keys()
        assert "grad/inputs/target" not in rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "step", "options", "origin"),
    [
        ("conjugate", 1, (), "spectrum"),
        ("penalty", 4, (), "loss"),
        ("average", 1, ("--mode", "train"), "buffer/centred.mean"),
        ("forgotten", 1, ("--mode", "train"), "buffer/centred.mean"),
        ("table", 1, (), "buffer/table:built"),
    ],
)
def test_a_planted_fault_is_found_where_it_is(checkout, fault, step, options, origin):
    done, rows = ended(1, check(checkout, step, "--preset", fault, *options))
    assert rows[origin]["verdict"] in ("DIVERGED", "INVALID")
    if fault == "forgotten":
        assert "only the other side's forward changes this buffer" in rows[origin]["note"]


@pytest.mark.slow
def test_nan_that_both_sides_mean_passes_where_it_is_allowed(checkout):
    done, rows = ended(1, check(checkout, 1, "--preset", "masks"))
    assert rows["attend"]["verdict"] == "INVALID"
    assert "--allow nan" in rows["attend"]["note"]
    done, rows = ended(0, check(checkout, 1, "--preset", "masks", "--allow", "nan"))
    assert rows["attend"]["verdict"] == "ROUNDING" and rows["attend"]["nans"] == 36
    assert "hold NaN at the same places on both sides" in done.stdout
    done, rows = ended(1, check(checkout, 1, "--preset", "masks nan to zero", "--allow", "nan"))
    assert rows["attend"]["verdict"] == "INVALID"


# ---- the rule on NaN ----------------------------------------------------------------------------

RIGHT = np.linspace(1.0, 2.0, 12)


def runs(changed=None):
    """t32, p32, t64 and p64 with a NaN in the middle; `changed` of Paddle's is what it says."""
    arrays = [RIGHT.astype(np.float32)] * 2 + [RIGHT] * 2
    arrays = [array.copy() for array in arrays]
    for array in arrays:
        array[5] = np.nan
    for array in arrays[1::2]:
        for i, value in (changed or {}).items():
            array[i] = value
    return arrays


@pytest.mark.parametrize(
    ("changed", "allowed", "verdict"),
    [
        ({}, False, "INVALID"),
        ({}, True, "IDENTICAL"),
        ({5: 1.0}, True, "INVALID"),  # on one side alone
        ({6: np.nan}, True, "INVALID"),  # in another place as well
        ({0: 1.001}, True, "DIVERGED"),  # the values beside it count as ever
        ({0: np.inf}, True, "INVALID"),
    ],
)
def test_nan_is_compared_by_its_places(changed, allowed, verdict):
    row = judge_tensor("a", *runs(changed), Context(allow_nan=allowed))
    assert row.verdict == verdict
    assert ("--allow nan compares the others" in row.note) == (not changed and not allowed)


def test_logs_of_nan_alone_show_nothing():
    nothing = np.full(4, np.nan)
    logs = [{"a": nothing.astype(np.float32)}] * 2 + [{"a": nothing}] * 2
    assert judge_logs(*logs, allow_nan=True).exit_code == 1
    some = [log | {"b": np.ones(4, log["a"].dtype)} for log in logs]
    assert judge_logs(*some, allow_nan=True).exit_code == 0
