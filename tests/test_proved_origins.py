"""Which of several origins is the one: fed alone, and with those of the other layers."""

import numpy as np
import pytest

from common.check import origins
from common.logs.sidecar import IN_PLACE, Sidecar, write_sidecar
from common.logs.writer import LogWriter
from common.verdict.inside import Effect, effect_of
from common.verdict.judge import Judgement
from common.verdict.row import Row

LAYERS = ("a.0.mix:in/0", "a.1.mix:in/0")


def prove(monkeypatch, left, keys=(*LAYERS, "a.1.norm:in/0"), nothing=()):
    """The rows after the trials; `left`: what part of the gaps each trial leaves, of its keys.

    nothing   the trials that move nothing
    """
    rows = [Row(key, "DIVERGED", origin=True, inside=True) for key in keys]
    tried = []

    def effect(self, keys):
        tried.append(tuple(keys))
        part = left.get(tuple(keys), 1.0)
        return Effect(4, 0 if part == 0.0 else 4, part, tuple(keys) in nothing)

    monkeypatch.setattr(origins._Trial, "effect", effect)
    origins.prove_origins(None, None, None, "forward", Judgement(rows=rows))
    return {row.key: row for row in rows}, tried


def test_what_is_wrong_in_every_layer_is_named_though_one_alone_makes_it_worse(monkeypatch):
    """FNet of PaddleNLP 2.8.1: a transform over one axis too many, in each layer."""
    rows, _ = prove(monkeypatch, {LAYERS[:1]: 2.0, LAYERS: 0.0})
    assert [rows[key].verdict for key in LAYERS] == ["DIVERGED", "DIVERGED"]
    assert "here and at 1 like it 4 of 4 rows agree" in rows[LAYERS[0]].note
    assert rows["a.1.norm:in/0"].verdict == "INSIDE", "it has no part in it"


@pytest.mark.parametrize("together", [2.0, 1.0])
def test_what_makes_it_worse_in_all_layers_is_no_origin(monkeypatch, together):
    last = ("a.1.norm:in/0",)
    left = {LAYERS[:1]: 2.0, LAYERS[1:]: 2.0, LAYERS: together, last: 0.0}
    rows, tried = prove(monkeypatch, left)
    assert [rows[key].verdict for key in LAYERS] == ["INSIDE", "INSIDE"]
    assert rows[last[0]].verdict == "DIVERGED" and "here alone" in rows[last[0]].note
    assert tried.count(LAYERS) == 1


def test_what_one_place_puts_right_is_tried_alone(monkeypatch):
    rows, tried = prove(monkeypatch, {LAYERS[:1]: 0.0})
    assert tried == [LAYERS[:1]] and rows[LAYERS[1]].verdict == "INSIDE"


MASK, BUCKETS = "a.mask:in/0", "a.buckets:in/0"


def test_what_moves_nothing_is_not_named_before_what_is_wrong(monkeypatch):
    """T5 of PaddleNLP 2.8.1: its mask of -1e4 masks like -inf, its buckets are others."""
    keys = (MASK, BUCKETS)
    rows, _ = prove(monkeypatch, {(BUCKETS,): 0.5}, keys, nothing=[(MASK,)])
    assert (rows[MASK].verdict, rows[BUCKETS].verdict) == ("INSIDE", "DIVERGED")
    rows, _ = prove(monkeypatch, {(BUCKETS,): 0.5}, keys)
    assert rows[MASK].verdict == "DIVERGED", "it may be one of several"


def test_what_moves_nothing_in_all_layers_is_no_origin(monkeypatch):
    last = "a.1.norm:in/0"
    rows, _ = prove(monkeypatch, {}, nothing=[LAYERS[:1], LAYERS])
    assert [rows[key].verdict for key in (*LAYERS, last)] == ["INSIDE", "INSIDE", "DIVERGED"]
    rows, _ = prove(monkeypatch, {}, nothing=[LAYERS[:1]])
    assert [rows[key].verdict for key in LAYERS] == ["DIVERGED", "DIVERGED"]


def test_something_stays_named_where_everything_moves_nothing(monkeypatch):
    rows, _ = prove(monkeypatch, {}, (MASK, BUCKETS), nothing=[(MASK,), (BUCKETS,)])
    assert {row.verdict for row in rows.values()} == {"DIVERGED"}


@pytest.mark.parametrize("there", [True, False])
def test_what_moves_nothing_is_fed_in_every_case(monkeypatch, there):
    """A branch whose last weight is 0 moves nothing until the weights are stirred."""
    keys = (MASK, BUCKETS)
    stirred = tuple(f"stirred/{key}" for key in keys)
    nothing = [(MASK,), *([stirred[:1]] if there else [])]
    monkeypatch.setattr(Judgement, "cases", ("", "stirred/"), raising=False)
    rows, tried = prove(monkeypatch, {}, (*keys, *stirred), nothing=nothing)
    assert stirred[:1] in tried and rows[MASK].verdict == "INSIDE"
    assert rows[stirred[0]].verdict == ("INSIDE" if there else "DIVERGED")


@pytest.mark.parametrize(
    ("logits", "mask", "kind", "nothing"),
    [
        (1.5, (2, 3), "", True),
        (1.5 + 1e-9, (2, 3), "", True),  # another order of sums
        (1.4, (2, 3), "", False),
        (1.5, (3, 2), "", False),  # nothing could be fed
        (1.5, (2, 3), f"Mask {IN_PLACE}", False),
    ],
)
def test_what_feeding_moves_is_told_from_both_runs(tmp_path, logits, mask, kind, nothing):
    def log(name, dtype, value, shape):
        path = tmp_path / f"{name}.npy"
        with LogWriter(path) as writer:
            writer.add(MASK, np.zeros(shape, dtype))
            writer.add("logits", np.full(4, value, dtype))
        write_sidecar(path, Sidecar(classes={MASK: kind}))
        return path

    logs = {
        "ref32": log("ref32", "float32", 1.0, (2, 3)),
        "cand32": log("cand32", "float32", 1.5, mask),
        "ref64": log("ref64", "float64", 1.0, (2, 3)),
        "cand64": log("cand64", "float64", 1.5, mask),
    }
    run = log("fed", "float64", logits, mask)
    rows = [
        Row(MASK, "DIVERGED", inside=True),
        Row("logits", "CARRIED", gap=0.5, scale=1.0),
    ]
    effect = effect_of(logs, run, "", rows, {MASK: np.zeros((2, 3))})
    assert (effect.before, effect.after, effect.nothing) == (1, 1, nothing)
