"""Weights and learning rates that suit a model: less noise, lower rates, only where they must."""

import numpy as np
import pytest
from builders import copied, ended
from checkout import ROOT, Checkout
from ported import DEEP as PAIR

from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.pair.pairs import PERTURBED
from twincheck.common.pair.tape import Tape
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.noise import with_noise
from twincheck.common.weights.suits import ACTIVATIONS, Sizes, suited
from twincheck.step4_backward.rates import Watch
from twincheck.step5_train.envelope import PART_STEPS, parts_of

STEPS_OF_4 = 10  # in the checkout: the later ones show that a rate does not suit


# ---- noise --------------------------------------------------------------------------------------


def network(layers, spread, shape=(32, 32, 1, 1)):
    """State and owners of layers that a convolution of size 1 and its norm make."""
    rng, state, owners = np.random.default_rng(0), {}, {}
    for i in range(layers):
        for kind, local, values in (
            ("Conv2d", "weight", spread * rng.standard_normal(shape)),
            ("Conv2d", "bias", np.zeros(32)),
            ("BatchNorm2d", "weight", np.ones(32)),
            ("BatchNorm2d", "running_var", np.ones(32)),
        ):
            key = f"{i}.{kind}.{local}"
            state[key] = values.astype(np.float32)
            parameter = local != "running_var"
            owners[key] = Owner(kind, local, values.shape, parameter, key)
    return state, owners


def forward(state, layers, calls):
    """The sizes of the network's activations, in float64."""
    calls.append(1)
    sizes, x = Sizes(), np.random.default_rng(1).standard_normal((4, 32))
    for i in range(layers):
        weight, bias, gain, variance = (
            state[f"{i}.{name}"].astype(np.float64)
            for name in ("Conv2d.weight", "Conv2d.bias", "BatchNorm2d.weight",
                         "BatchNorm2d.running_var")
        )  # fmt: skip
        x = x @ weight.reshape(32, 32).T + bias
        x = gain * x / np.sqrt(variance)
        sizes.see(str(i), x)
    sizes.see_output(x)
    return sizes


def test_thirty_layers_get_less_noise_and_all_get_some():
    """The usual noise makes each layer's activations three times larger."""
    layers, calls = 30, []
    state, owners = network(layers, 1 / np.sqrt(32))
    both = state, with_noise(PERTURBED, state, owners, seed=0)
    plain, usual = (forward(one, layers, []) for one in both)
    assert usual.rms["29"] > 1e10 * plain.rms["29"]
    perturbed, level, because, left = suited(state, owners, 0, lambda s: forward(s, layers, calls))
    assert 0.1 < level < 1 and "without noise" in because
    chosen = forward(perturbed, layers, [])
    for key, rms in chosen.rms.items():
        assert rms <= ACTIVATIONS * max(1.0, plain.rms[key])
    for key, values in perturbed.items():
        off = np.abs(values - state[key])
        assert (off > 0).mean() > 0.99, f"{key} has lost its noise"
        assert off.std() > 0.02 * (values.std() + 0.1)
    assert min(v.min() for k, v in perturbed.items() if k.endswith("running_var")) > 0.2


def test_three_linear_layers_keep_the_usual_noise_for_one_forward_pass():
    calls = []
    state, owners = network(3, 1 / np.sqrt(32), (32, 32))
    perturbed, level, because, left = suited(state, owners, 0, lambda s: forward(s, 3, calls))
    assert (level, because, left, len(calls)) == (1.0, "", set(), 1)
    for key, values in with_noise(PERTURBED, state, owners, seed=0).items():
        assert np.array_equal(values, perturbed[key])


@pytest.mark.parametrize("output", [None, np.nan])
def test_a_buffer_on_whose_other_values_the_model_fails_stays(output):
    state = {"flag": np.ones((), np.float32), "w": np.ones(3, np.float32)}
    owners = {k: Owner("", k, v.shape, k == "w", k) for k, v in state.items()}

    def measure(found):
        plain = found["flag"] == 1
        return Sizes(output=1.0) if plain else output and Sizes(output=output)

    perturbed, level, _, left = suited(state, owners, 0, measure)
    assert (level, left, perturbed["flag"]) == (1.0, {"flag"}, 1) and (perturbed["w"] != 1).any()
    assert suited(state, owners, 0, lambda found: Sizes(output=1.0))[3] == set()


def seen(**tensors):
    sizes = Sizes()
    for key, values in tensors.items():
        sizes.see(key, np.asarray(values))
    return sizes


def test_masks_are_no_activations_and_what_is_not_finite_is_too_large():
    assert not seen(scores=[[0.5, -1e9], [-np.inf, 1.0]]).beyond()
    assert seen(x=[0.0, 1e4]).beyond() and seen(x=[0.0, np.nan]).beyond()
    assert seen(x=[np.inf, 0.0]).beyond(seen(x=[1.0]))
    assert not seen(x=[0.0, np.nan]).beyond(seen(x=[0.0, np.nan])), "its own NaN"
    saturated = Sizes(output=40.0)
    assert saturated.beyond() and not saturated.beyond(Sizes(output=30.0))
    assert Sizes(loss=64.0).beyond(Sizes(loss=2.3)) and not Sizes(loss=64.0).beyond(Sizes(loss=60))
    assert Sizes(loss=np.nan).beyond(Sizes(loss=2.3))


# ---- learning rates -----------------------------------------------------------------------------


def watched(losses, nearby=None):
    watch = Watch()
    for loss in losses:
        watch.see(loss)
    if nearby is not None:
        assert watch.overshoots
        watch.compare(nearby)
    return watch


def descent(start, rate, curvature=1.0):
    """Losses of ten steps down a parabola."""
    values = [start * (1 - rate * curvature) ** k for k in range(10)]
    return [0.5 * curvature * v * v for v in values]


@pytest.mark.parametrize(
    "losses", [[2.3, np.nan], [2.3, 1.0, np.inf], [2.3, 1.0, 7.0], descent(3.0, 2.5), [-5.0, -50.0]]
)
def test_a_loss_that_blows_up_is_a_problem(losses):
    watch = watched(losses)
    assert "the loss goes from" in watch.problem and not watch.overshoots


@pytest.mark.parametrize(
    "losses", [descent(3.0, 0.5), [2.3, 2.35, 2.2], [1e-9, 1e-9], [1e12, 9e11], [np.nan, 1.0]]
)
def test_a_loss_that_falls_costs_no_further_run(losses):
    watch = watched(losses)
    assert not watch.problem and not watch.overshoots


def test_chaos_is_told_from_a_swing():
    """A parabola swings through its minimum; a logistic map is as bounded, and chaotic."""
    swing = [1.0, 0.4, 0.05, 0.3, 0.5, 0.3, 0.05, 0.2, 0.3, 0.2]
    assert not watched(swing, [loss * (1 + 2.0**-23) for loss in swing]).problem

    def logistic(value):
        losses = [value]
        while len(losses) < 20:
            losses.append(3.99 * losses[-1] * (1 - losses[-1]))
        return losses

    assert "rounding" in watched(logistic(0.3), logistic(0.3 * (1 + 2.0**-23))).problem


# ---- whole checks -------------------------------------------------------------------------------


def sidecars(checkout, step, stem):
    for side in ("torch", "paddle"):
        for run in ("", "_fp64"):
            yield read_sidecar(checkout.logs(step, PAIR.name) / f"{stem}_{side}{run}.npy")


@pytest.mark.slow
def test_a_deep_pair_passes_and_its_lost_bias_is_found(checkout):
    done, report = ended(0, checkout.rows(1, "--model", str(PAIR), "--no-report"))
    assert "case perturbed: the noise on its weights is 0.5 of the usual" in done.stdout
    noises = [sidecar.noise for sidecar in sidecars(checkout, 1, "forward_all")]
    assert noises[0]["perturbed"]["level"] == 0.5 and noises == noises[:1] * 4
    done, report = ended(
        1, checkout.rows(1, "--model", str(PAIR), "--no-report", "--preset", "no_bias")
    )
    assert report["first_diverged"] == "perturbed/layers.11"


@pytest.mark.slow
def test_rates_are_lowered_on_both_sides_and_wrong_momentum_is_found(checkout, tmp_path):
    arguments = ("--model", str(PAIR), "--no-report", "--case", "main")
    done, _ = ended(0, checkout.rows(4, *arguments))
    assert "the learning rate of sgd is 0.001 of the usual" in done.stdout
    assert done.stdout.count("learning rate") == 1, "the others suit it"
    rates = [sidecar.rates for sidecar in sidecars(checkout, 4, "bp_align_all")]
    assert rates[0]["main"]["sgd"]["factor"] == 0.001 and rates == rates[:1] * 4
    faulty = Checkout(tmp_path, steps=STEPS_OF_4)
    own = "self.side.scale_(velocity, self.momentum)"
    off = own.replace("self.momentum", "0.899 if self.side.NAME == 'paddle' else self.momentum")
    faulty.replace("common/sides/optimizer.py", own, off)
    done, report = ended(1, faulty.rows(4, *arguments))
    assert report["first_diverged"].startswith("sgd/001/")


def test_a_chaotic_pair_passes(checkout):
    arguments = ("--model", str(PAIR), "--no-report", "--case", "main", "--preset", "waves")
    done, _ = ended(0, checkout.rows(4, *arguments))
    assert "float32's rounding of weights and inputs alone moves a loss by" in done.stdout


def test_what_float32_cannot_bear_is_lowered_before_anything_is_judged(tmp_path):
    """Float32 is said to bear nothing here: both are run again with lower rates."""
    checkout = Checkout(tmp_path)
    checkout.replace("step4_backward/rates.py", "max(MOVED * largest, 10 * off[0])", "0 * largest")
    checkout.replace("step4_backward/rates.py", "range(17)", "range(3)")
    pair = copied(ROOT / "faults" / "users" / "pairs" / "many_labels", tmp_path)
    done, report = ended(0, checkout.rows(4, "--model", str(pair), "--no-report", "--case", "main"))
    assert "of the usual; with a larger one float32 moves a loss by" in done.stdout
    rates = [row for row in report["rows"] if row["key"].endswith("sgd/001/lr")]
    assert len(rates) == 1, "only the last run's rows are there"


# ---- trainings of few steps ---------------------------------------------------------------------


def test_parts_are_epochs_or_several_of_them():
    def parts(*arguments):
        return {name: steps.tolist() for name, steps in parts_of(*arguments)}

    assert list(parts(33, 11)) == ["epoch_001", "epoch_002", "epoch_003"]
    assert parts(33, 11)["epoch_002"] == list(range(11, 22))
    assert parts(12, 4) == {"epochs_001_to_003": list(range(12))}
    assert {k: len(v) for k, v in parts(40, 4).items()} == {
        f"epochs_{n:03d}_to_{n + 1:03d}": 8 for n in (1, 3, 5, 7, 9)
    }
    # An epoch that was begun: a part where it has as many steps, else the former one's.
    assert [len(steps) for steps in parts(50, 20).values()] == [20, 20, 10]
    assert [len(steps) for steps in parts(45, 20).values()] == [20, 25]
    assert list(parts(5, 20)) == ["epoch_001"]
    assert PART_STEPS == 8


@pytest.mark.parametrize(
    ("loss", "fall", "part"),
    [(7.0, 0.5, 1.0), (7.0, 5.0, 4.2 / 41.0), (0.1, 5.0, 1.8 / 41.0), (7.0, np.inf, 1.0)],
)
def test_the_slope_of_a_large_models_loss_tells_the_rate_that_suits(loss, fall, part):
    """One pass tells it, where ten would be dear; what is infinite the loss itself shows."""
    watch = Watch()
    watch.see(loss)
    watch.see_slope(fall)
    assert watch.part == pytest.approx(part)
    assert bool(watch.problem) == (part < 1.0)
    assert not watch.problem or f"of {loss:.2g} by {41 * fall:.2g}" in watch.problem


# ---- many values --------------------------------------------------------------------------------


def test_large_noise_is_normal_and_the_same_however_many_threads_draw_it(monkeypatch):
    """Three blocks and a part, N(0, 1), no two alike; few values are as they always were."""
    shape = (3 * (1 << 20) // 512 + 9, 512)
    drawn = [None, None]
    for i, threads in enumerate(("1", "3")):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        drawn[i] = Tape(0).normal_in_blocks("site", 0, shape)
    assert (drawn[0] == drawn[1]).all() and drawn[0].dtype == np.float32
    flat, block = drawn[0].reshape(-1).astype(np.float64), 1 << 20
    moments = [np.mean(flat**k) for k in (1, 2, 3, 4)]
    assert np.allclose(moments, (0, 1, 0, 3), atol=0.02)
    starts = [flat[i * block : i * block + 4096] for i in range(4)]
    assert np.abs(np.corrcoef(starts) - np.eye(4)).max() < 0.1
    assert (Tape(0).normal("site", 0, shape) == drawn[0]).all()
    assert not (Tape(1).normal("site", 0, shape) == drawn[0]).any(axis=1).all()
    few = Tape(0).normal("site", 0, (7, 5))
    assert (few == Tape(0).generator("site").standard_normal((7, 5))).all()
