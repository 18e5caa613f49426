"""Which of several origins is the one: fed alone, and with those of the other layers."""

import pytest

from twincheck.common.check import origins
from twincheck.common.check.origins import Effect
from twincheck.common.verdict.judge import Judgement
from twincheck.common.verdict.row import Row

LAYERS = ("a.0.mix:in/0", "a.1.mix:in/0")


def prove(monkeypatch, left, keys=(*LAYERS, "a.1.norm:in/0")):
    """The rows after the trials; `left`: what part of the gaps each trial leaves, of its keys."""
    rows = [Row(key, "DIVERGED", origin=True, inside=True) for key in keys]
    tried = []

    def effect(*told):
        keys = told[-1]
        tried.append(tuple(keys))
        part = left.get(tuple(keys), 1.0)
        return Effect(4, 0 if part == 0.0 else 4, part)

    monkeypatch.setattr(origins, "_effect", effect)
    origins.prove_origins(None, None, None, "forward", Judgement(rows=rows))
    return {row.key: row for row in rows}, tried


def test_what_is_wrong_in_every_layer_is_named_though_one_alone_makes_it_worse(monkeypatch):
    """FNet of PaddleNLP 2.8.1: a transform over one axis too many, in each layer."""
    rows, _ = prove(monkeypatch, {LAYERS[:1]: 2.0, LAYERS: 0.0})
    assert [rows[key].verdict for key in LAYERS] == ["DIVERGED", "DIVERGED"]
    assert "here and at 1 more 4 of 4 rows agree" in rows[LAYERS[0]].note
    assert rows["a.1.norm:in/0"].verdict == "INSIDE", "it has no part in it"


@pytest.mark.parametrize("together", [2.0, 1.0])
def test_what_makes_it_worse_in_all_layers_is_no_origin(monkeypatch, together):
    last = ("a.1.norm:in/0",)
    left = {LAYERS[:1]: 2.0, LAYERS[1:]: 2.0, LAYERS: together, last: 0.0}
    rows, tried = prove(monkeypatch, left)
    assert [rows[key].verdict for key in LAYERS] == ["INSIDE", "INSIDE"]
    assert rows[last[0]].verdict == "DIVERGED" and "here alone" in rows[last[0]].note
    assert tried.count(LAYERS) == 1


@pytest.mark.parametrize("together", [0.0, 2.0])
def test_two_that_hide_each_other_in_part_are_tried_together(monkeypatch, together):
    """If that is worse too, neither is called right: what is off starts somewhere."""
    keys = ("a.norm", "b.mix")
    left = {keys[:1]: 2.0, keys[1:]: 2.0, keys: together}
    rows, tried = prove(monkeypatch, left, keys)
    assert {row.verdict for row in rows.values()} == {"DIVERGED"} and tried[-1] == keys
    assert ("1 more 4 of 4 rows agree" in rows[keys[0]].note) == (together == 0.0)


@pytest.mark.parametrize(("together", "verdict"), [(0.0, "DIVERGED"), (0.6, "INSIDE")])
def test_two_that_hide_each_other_are_tried_beside_a_third(monkeypatch, together, verdict):
    """Feeding the third alone leaves half of it, feeding all three nothing."""
    keys = ("a.norm", "b.mix", "c.mix")
    left = {keys[:1]: 2.0, keys[1:2]: 2.0, keys[2:]: 0.5, (keys[2], *keys[:2]): together}
    rows, _ = prove(monkeypatch, left, keys)
    assert [rows[key].verdict for key in keys] == [verdict, verdict, "DIVERGED"]


def test_what_one_place_puts_right_is_tried_alone(monkeypatch):
    rows, tried = prove(monkeypatch, {LAYERS[:1]: 0.0})
    assert tried == [LAYERS[:1]] and rows[LAYERS[1]].verdict == "INSIDE"
