"""Step 5's envelope: what self-twins scatter by, what is allowed of it, and what is stored."""

from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
from checkout import ROOT

from twincheck.common.pair.pairs import load_pairs
from twincheck.common.pair.provenance import model_sources
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.step5_train import envelope
from twincheck.step5_train.envelope import (
    Spread,
    drift,
    parts_of,
    spread,
    spread_of_choices,
    spreads_of,
)
from twincheck.step5_train.step import main
from twincheck.step5_train.trained import _learnt, _predictions

RNG = np.random.default_rng(5)
STEPS = 40
LOSS = np.linspace(2.0, 1.0, STEPS)
PARTS = parts_of(STEPS, 10)


def runs(size, count=4, growth=0.1):
    """The losses of runs that are apart by what rounding grows to."""
    grown = size * np.exp(growth * np.arange(STEPS))
    return [LOSS + RNG.normal() * grown * (1 + 0.1 * RNG.normal(size=STEPS)) for _ in range(count)]


# ---- the scatter --------------------------------------------------------------------------------


def test_two_runs_are_as_far_apart_as_the_scatter_says():
    torch, paddle = (RNG.normal(0, sd, (200, 50)) for sd in (1.0, 2.0))
    found = spread(list(torch), list(paddle))
    assert found.variance == pytest.approx(1.0 + 4.0, rel=0.05)
    assert found.freedom == 398
    apart = [np.mean((t - p) ** 2) for t, p in zip(torch, paddle, strict=True)]
    assert np.mean(apart) == pytest.approx(found.variance, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [1, 3, 20])
def test_false_alarms_are_as_rare_as_said(dimensions, monkeypatch):
    """Of runs that scatter in so many directions; said is one in 100 here, to be counted."""
    monkeypatch.setattr(envelope, "ALARMS", 100)
    alarms = 0
    for _ in range(2000):
        a, b, c = (RNG.normal(size=(4, dimensions)) @ np.eye(dimensions, 30) for _ in range(3))
        found = spread(list(a), list(b))
        alarms += envelope.apart(*c[:2]) > found.allowed()
    assert alarms <= 60  # 20 are expected of an exact test


def test_what_choices_differ_in_is_counted_in_samples():
    same = [np.zeros(100, np.int64) for _ in range(4)]
    found = spread_of_choices(same, same)
    assert found.variance * 100 == pytest.approx(1 / 12), "as if a further pair had differed in one"
    other = [np.zeros(100, np.int64) for _ in range(4)]
    for number, run in enumerate(other):
        run[number] = 2  # two of these differ in two samples, one and the first in one
    found = spread_of_choices(other, same)
    assert found.variance * 100 == pytest.approx(1.0 + 1 / 12)


# ---- the rows -----------------------------------------------------------------------------------


def judged(torch, paddle, folder, twins=1e-6):
    found = spreads_of(runs(twins), runs(twins), PARTS)
    return drift(torch, paddle, found, folder, PARTS)


def test_drift_is_held_against_what_self_twins_make(tmp_path):
    torch, paddle = runs(1e-6, count=2)
    rows = judged(torch, paddle, tmp_path)
    assert {row.verdict for row in rows} == {"ROUNDING"}
    assert [row.size for row in rows] == [10] * 4
    # A loss that falls slower by a thousandth: far below what was a limit of 0.95 of the loss.
    rows = judged(torch, paddle + 1e-3 * (2.0 - LOSS), tmp_path)
    assert rows[-1].verdict == "DIVERGED" and rows[-1].origin
    rows = judged(torch, paddle[:-1], tmp_path)
    assert (rows[0].key, rows[0].verdict) == ("train/drift", "DIVERGED")


def test_the_limit_can_fail_wherever_the_training_is(tmp_path):
    """However chaotic: half of the loss is beyond any envelope of a training that learnt."""
    chaotic = spreads_of(runs(3e-2, growth=0), runs(3e-2, growth=0), PARTS)
    for row in drift(LOSS, 1.5 * LOSS, chaotic, tmp_path, PARTS):
        assert row.verdict == "DIVERGED", row


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [((3, 2.9, 1, 1.1), "ROUNDING"), ((2, 1, 2.1, 1.1), "UNDECIDED"), ((3, 1), "UNDECIDED")],
)
def test_a_short_training_is_held_against_its_own_scatter(losses, verdict):
    row = _learnt("torch", {"curve/loss": np.array(losses), "moved": np.float64(1)})
    assert row.verdict == verdict
    assert row.gap > 0 or "2 steps are too few to tell" in row.note


def test_predictions_that_differ_in_more_samples_than_self_twins_do_are_red():
    labels = RNG.integers(0, 3, 1000)
    found = spread_of_choices(*([labels] * 4 for _ in SIDES))
    for wrong, verdict in ((0, "IDENTICAL"), (3, "ROUNDING"), (60, "DIVERGED")):
        paddle = labels.copy()
        paddle[:wrong] = (paddle[:wrong] + 1) % 3
        row = _predictions((labels, paddle), (), labels, found)
        assert (row.verdict, row.gap) == (verdict, wrong), row
        row = _predictions((labels, paddle), (labels, labels), labels, found)
        assert row.verdict == {"DIVERGED": "IDENTICAL"}.get(verdict, verdict), row
        row = _predictions((labels, paddle), (labels, paddle), labels, found)
        assert row.verdict == verdict, "the same differences in float64"


def test_what_a_side_rounds_always_one_way_is_none_of_the_function(tmp_path):
    """Twins are moved at random: trainings in float64 say what float32 has taken too far."""
    found = spreads_of(runs(1e-6), runs(1e-6), PARTS)
    off = LOSS + 1e-3
    for there, verdict in (((), "DIVERGED"), ((LOSS, off), "DIVERGED"), ((LOSS, LOSS), "ROUNDING")):
        rows = drift(LOSS, off, found, tmp_path, PARTS, there)
        assert {row.verdict for row in rows} == {verdict.replace("ROUNDING", "IDENTICAL")}, there
        assert all(("in float64" in row.note) == bool(there) for row in rows)
        assert all(row.origin == (verdict == "DIVERGED") for row in rows)
    nearly = drift(LOSS, off, found, tmp_path, PARTS, (LOSS, LOSS + 1e-9))
    assert {row.verdict for row in nearly} == {"ROUNDING"}
    fewer = drift(LOSS, off, found, tmp_path, PARTS, (LOSS, LOSS[:-1]))
    assert {row.verdict for row in fewer} == {"DIVERGED"}, "another number of steps"


@pytest.mark.slow
def test_trainings_that_drift_too_far_are_run_in_float64(tmp_path, monkeypatch, capsys):
    """If twins scatter too little for a right port, float64 shows that it is right."""
    monkeypatch.setattr(Spread, "allowed", lambda self, noise=0.0: 0.01 * np.sqrt(self.variance))
    words = ("--model", "examples/text_classifier", "--steps", "12", "--allow", "undecided")
    out = ("--out", str(tmp_path), "--json", str(tmp_path / "rows.json"))
    assert main([*words, *out]) == 0, capsys.readouterr().out
    rows = load_json(tmp_path / "rows.json")["rows"]
    notes = [row["note"] for row in rows if row["key"].startswith("train/drift")]
    assert notes and all("trained in float64 they are" in note for note in notes)


# ---- what is stored -----------------------------------------------------------------------------


def stored_pairs():
    return [
        pair for pair in load_pairs(("all",)) if envelope.stored_file(pair, "default").is_file()
    ]


@pytest.mark.parametrize("pair", stored_pairs(), ids=lambda pair: pair.name)
def test_a_stored_envelope_is_of_the_training_as_it_is(pair):
    """If it is not: python -m tools.envelopes."""
    told = load_json(envelope.stored_file(pair, "default"))["depends_on"]
    sources = {name: of for side in SIDES for name, of in model_sources(pair, side).items()}
    now = envelope.of_the_checkout(sources) | {
        "torch version": envelope.public(version("torch")),
        "paddle version": version("paddlepaddle"),
    }
    stale = [name for name in now if told[name] != now[name]]
    assert not stale, f"python -m tools.envelopes --model {pair.name}: {', '.join(stale)} changed"


def test_a_build_with_cuda_is_the_same_version():
    """The device that computes is an option of the training, and no part of the build's name."""
    assert envelope.public("2.13.0+cu130") == envelope.public("2.13.0+cpu") == "2.13.0"


def test_a_stored_envelope_is_refused_once_anything_has_changed(tmp_path, monkeypatch):
    (pair,) = load_pairs(("fastformer",))
    monkeypatch.setattr(envelope, "STORED", tmp_path)
    request = RunRequest()
    told = {"spreads": {}, "depends_on": envelope.depends_on(tmp_path, request)}
    write_json(envelope.stored_file(pair, "default"), told)
    assert envelope.stored(tmp_path, pair, request) == ({}, "")
    found, why = envelope.stored(tmp_path, pair, replace(request, epochs=2))
    assert found is None and "of another options: measured anew" in why
    monkeypatch.setattr(envelope, "_TRAINING", envelope._TRAINING[1:])
    found, why = envelope.stored(tmp_path, pair, request)
    assert found is None and "of another workbench" in why
    (own,) = load_pairs((str(ROOT / "examples" / "text_classifier"),))
    assert envelope.stored(tmp_path, own, request) == (None, "")
