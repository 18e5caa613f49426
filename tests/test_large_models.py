"""Step 4 of a large model: three of its four set-ups take given gradients, and run no model.

faults/catalogue/large_models.toml has the faults in them.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from builders import a_case, a_net, arrays_of, ended, write_pair
from checkout import ROOT, Checkout

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.pair.pairs import load_pair
from twincheck.common.weights.layers import Owner, count_values
from twincheck.common.weights.states import load_state
from twincheck.step4_backward.backward import taken
from twincheck.step4_backward.given import SCALES, normalised
from twincheck.step4_backward.setups import GIVEN, SETUPS, STEPS, setups_of

CASE = a_case('"x": rng.standard_normal((3, 4)).astype("float32"), "labels": rng.integers(0, 2, 3)')
# `unused` gets no gradient, and decays in no step; one of zeros would let it decay.
TORCH = a_net(
    "self.used = nn.Linear(4, 2)\nself.unused = nn.Linear(2, 2)",
    'return {"logits": self.used(x)}',
    'F.cross_entropy(outputs["logits"], inputs["labels"])',
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    copy = Checkout(tmp_path_factory.mktemp("large"), steps=10)
    copy.pair = write_pair(copy.elsewhere / "pair", CASE, TORCH)
    return copy


def rows(checkout, *arguments):
    options = ("--model", str(checkout.pair), "--no-report", "--thorough", *arguments)
    return checkout.rows(4, *options)


def keys_of(folder, run="_fp64"):
    return arrays_of(ResultFolder(folder).log("bp_align_all", "paddle", run))


# ---- which gradients ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-30, 3e-4, 1.0, 7e5, 1e30])
def test_gradients_are_brought_to_one_size_by_a_power_of_two(size):
    rng = np.random.default_rng(0)
    found = {"a": size * rng.standard_normal((40, 30)), "b": size * rng.standard_normal(())}
    given = normalised(found)
    norm = np.sqrt(sum((values.astype(np.float64) ** 2).sum() for values in given.values()))
    assert 1 / 16 <= norm * (1 + 1e-7) and norm * (1 - 1e-7) < 1 / 8
    factor = given["a"] / found["a"]
    power = 2.0 ** np.round(np.log2(factor.mean()))
    for name, values in given.items():
        assert values.dtype == np.float32
        assert np.array_equal(values, (found[name] * power).astype(np.float32))


@pytest.mark.parametrize("value", [0.0, np.inf, np.nan])
def test_gradients_that_have_no_size_stay(value):
    found = {"a": np.array([value, 0.0]), "b": np.zeros(3)}
    for name, values in normalised(found).items():
        assert np.array_equal(values, found[name], equal_nan=True)


def test_a_tied_weight_counts_once_and_a_buffer_not_at_all():
    owners = {
        "a": Owner("Embedding", "weight", (7, 3), True, "a"),
        "b": Owner("Linear", "weight", (7, 3), True, "a"),
        "mean": Owner("BatchNorm1d", "running_mean", (5,), False, "mean"),
        "scalar": Owner("", "scalar", (), True, "scalar"),
    }
    assert count_values(owners) == 22


def test_which_set_ups_a_pair_takes():
    """A built-in model all; another SGD, and the optimizer that its case.py names or AdamW."""
    own = load_pair(str(ROOT / "examples" / "text_classifier"))  # of no entry in TRAIN
    for pair, kind, wanted in (
        (load_pair("fastformer"), "adam", list(SETUPS)),
        (own, "adam", ["adam", "sgd"]),
        (own, "sgd", ["sgd"]),
        (own, None, ["adamw", "sgd"]),
    ):
        case = SimpleNamespace(optimizer={"optimizer": kind}) if kind else SimpleNamespace()
        of = replace(pair, case=case)
        assert setups_of(of, {}, "default", thorough=False) == wanted
        assert setups_of(of, {}, "default", thorough=True) == list(SETUPS)
    # Paddle takes the reference's: its logs may be of more, or of an earlier version.
    suited = SimpleNamespace(rates={"main": {"sgd": {}}}, given={"main": {"setups": ["adam"]}})
    run = {"case": SimpleNamespace(name=""), "job": SimpleNamespace(is_reference=False)}
    assert taken(SimpleNamespace(suited=suited, **run)) == ["adam", "sgd"]


# ---- whole checks -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_of_that_size_runs_in_all_set_ups_and_a_larger_one_in_sgd_alone(checkout):
    done, _ = ended(0, rows(checkout, "--given-gradients-above", "16"))
    small = keys_of(checkout.logs(4, "pair"))
    assert not (checkout.logs(4, "pair") / "gradients").exists()
    done, _ = ended(0, rows(checkout, "--given-gradients-above", "15"))
    assert "parameters have 16 values, so that adam, adamw, adam_clip_warmup took" in done.stdout
    folder = checkout.logs(4, "pair")
    large = keys_of(folder)
    lost = {key for key in small if key not in large}
    of_adam = (key for key in small if key.startswith("adam"))
    assert lost == {key for key in of_adam if key.endswith("/loss") or "/grad/" in key}
    assert len(lost) == 3 * STEPS * (1 + 4) and large.keys() < small.keys()
    for key in large:
        if not key.startswith("adam"):
            # Paddle's loss is computed by an exact formula in a large model's float64 run.
            assert np.allclose(large[key], small[key], rtol=1e-12, atol=1e-15), key
    given = load_state(ResultFolder(folder).gradients(""))
    assert set(given) == {"used.weight", "used.bias"}, "what has no gradient is given none"
    for run in ("", "_fp64"):
        values = keys_of(folder, run)
        first = values["adam/000/moment1/used.bias"]
        assert np.allclose(first, 0.1 * SCALES[0] * given["used.bias"], rtol=1e-6, atol=0)
        last, first = (values[f"{s}/weight/unused.weight"] for s in ("adamw/009", "sgd/000"))
        assert np.array_equal(last, first)
        for side in ("torch", "paddle"):
            sidecar = read_sidecar(ResultFolder(folder).log("bp_align_all", side, run))
            assert sidecar.given_gradients["main"] == {"values": 16, "setups": list(GIVEN)}
            assert not sidecar.upcast
