"""Step 4's finite difference: one bound for both sides, and what both have detached is no fault."""

import numpy as np
import pytest
from builders import ended, judged, write_log
from checkout import change

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.run_kind import RunKind
from twincheck.step4_backward.backward import finite_difference
from twincheck.step4_backward.witnesses import witnesses

# What torch and Paddle found of one loss, once each: the slope, and the rounding over the step.
SLOPE, NOISE = 4.65e-2, {"torch": 1.1e-13, "paddle": 1e-17}
OFF = 5.7115e-08
DETACHED = "both sides' gradients are off the slope of their loss by the same"


def found(folder, **off):
    """The verdicts of witnesses by key, and the notes, of gradients that are so far off a slope."""
    for side, by in off.items():
        seen = {"sgd_worst": "weight", "sgd_off": 0.0, "largest_gradient": 1.0}
        seen |= {"gradient_norm": 0.1, "largest_weight": 1.0, "directional": SLOPE}
        seen |= {"finite_difference": SLOPE + by, "finite_step": 1e-5, "loss_noise": NOISE[side]}
        path = ResultFolder(folder).log("bp_align_all", side, RunKind.FLOAT64)
        write_log(path, {"grad/weight": np.ones(2)}, {"witness": {"main": seen}})
    rows, notes = witnesses(folder, None)
    kept = {r.key.removeprefix("main/witness/"): r for r in rows if "finite" in r.key}
    return kept, notes


def test_the_larger_noise_is_allowed_to_both(tmp_path):
    rows, notes = found(tmp_path, torch=OFF, paddle=OFF)
    assert {row.verdict for row in rows.values()} == {"ROUNDING"} and not notes
    allowed = {row.allowed for row in rows.values()}
    assert len(rows) == 2 and len(allowed) == 1 and OFF < allowed.pop() < 2 * OFF


@pytest.mark.parametrize("torch", [1e-2, 9.05e-8])
def test_what_both_gradients_lack_alike_is_no_fault_of_the_port(tmp_path, torch):
    """Far off, or so near the bound that the port alone is beyond it."""
    rows, notes = found(tmp_path, torch=torch, paddle=torch + 1e-9)
    assert not rows and len(notes) == 1, (rows, notes)
    assert notes[0].startswith(f"no witness main/witness/finite_difference: {DETACHED}")


@pytest.mark.parametrize("off", [{"torch": 0.0, "paddle": 1e-3}, {"torch": 0.0, "paddle": -2e-7},
                                 {"torch": 7e-8, "paddle": -1e-7}, {"paddle": 1e-3}])  # fmt: skip
def test_a_gradient_that_is_wrong_on_the_port_alone_stays_red(tmp_path, off):
    rows, notes = found(tmp_path, **off)
    assert rows["finite_difference/paddle"].verdict == "DIVERGED" and not notes
    if "torch" in off:
        assert rows["finite_difference/torch"].verdict in ("IDENTICAL", "ROUNDING")


def test_what_torch_alone_lacks_says_nothing(tmp_path):
    rows, notes = found(tmp_path, torch=1e-3, paddle=0.0)
    assert not rows and "in torch itself the loss rises by" in notes[0]


@pytest.mark.slow
def test_a_pair_that_detaches_on_both_sides(checkout, pair):
    """Both sides' runs; then on Paddle's side alone, where its own witness says so."""
    detached = ("self.square(self.norm(x))", "self.square(self.norm(x).detach())")
    change(pair / "paddle_model.py", *detached)
    _, rows = ended(1, judged(checkout, 4, pair, "--mode", "eval"))
    assert rows["main/witness/finite_difference/paddle"]["verdict"] == "DIVERGED"
    change(pair / "torch_model.py", *detached)
    done, _ = ended(0, judged(checkout, 4, pair, "--mode", "eval"))
    assert DETACHED in done.stdout, done.stdout


def test_the_step_is_the_one_that_bends_the_loss_least():
    found = finite_difference(lambda shift: 2.0 * shift + 1e7 * shift**3, 2.0, 1.0)
    assert found["finite_step"] == 1e-7 and abs(found["finite_difference"] - 2.0) < 2e-7
