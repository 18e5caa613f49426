"""Bits: which values have the same, and which operators are why others have not."""

import json
import shutil

import pytest
from builders import twincheck
from checkout import ROOT

pytestmark = pytest.mark.slow


def test_operators_that_differ_and_the_first_are_named(tmp_path):
    """The example's port is right: what differs is rounding, of a few units in the last place."""
    pair = shutil.copytree(
        ROOT / "examples" / "text_classifier", tmp_path / "a port" / "classifier"
    )
    said = twincheck("exact", pair.name, status=1, folder=pair.parent)
    told = json.loads((pair / "log" / "exact" / "classifier" / "exact.json").read_text())
    rows = {row["operator"]: row for row in told["operators"]}
    assert {"linear", "layer_norm", "embedding", "gelu", "add"} <= set(rows)
    assert rows["add"]["calls"] and not rows["add"]["ulps"]
    for row in rows.values():
        differs = row["differed"] + row["gradients_differed"]
        assert bool(differs) == bool(row["ulps"]) == bool(row["largest"]), row
        assert row["operator"] in said and (row["calls"] or row["untaken"])
    assert told["steps"]["1"]["differing"] and told["steps"]["4"]["differing"]
    first = told["first"]
    number = int(first["place"].split(":")[-1])
    line = (pair / "paddle_model.py").read_text().splitlines()[number - 1]
    assert (
        first["module"] and line.strip() and rows[first["operator"]]["ulps"] >= first["ulps"] > 0.1
    )
    assert f"the first that differs: {first['operator']} in {first['module']} at " in said
    assert f"by up to {first['ulps']:,.1f} ulps" in said


def test_a_planted_factor_is_found_in_bits(tmp_path):
    """A port that multiplies by what float32 rounds to 1 has equal bits; by more, it has not."""
    said = {}
    for name, factor in (("equal", "(1.0 + 1e-9)"), ("off", "(1.0 + 1e-6)")):
        folder = tmp_path / name
        folder.mkdir()
        for side in ("torch", "paddle"):
            base = "torch.nn.Module" if side == "torch" else "paddle.nn.Layer"
            scaled = "x * 1.0" if side == "torch" else f"x * {factor}"
            (folder / f"{side}_model.py").write_text(
                f"import {side}\n\n\nclass Net({base}):\n    def forward(self, x):\n"
                f"        return {scaled}\n\n\ndef build(config):\n    return Net()\n"
            )
        (folder / "case.py").write_text(
            "import numpy as np\n\nCONFIGS = {'default': {}}\n\n\ndef make_inputs(config, seed):\n"
            "    rng = np.random.default_rng(seed)\n"
            "    return {'x': rng.normal(size=(4, 8)).astype('float32')}\n"
        )
        said[name] = twincheck("exact", folder, status=int(name == "off"))
    assert "2 of 2 values have the same bits in float32" in said["equal"]
    assert "no operator differs by itself" in said["equal"]
    assert "0 of 2 values have the same bits in float32; the first that differs: " in said["off"]
    assert "no operator differs by itself" in said["off"]
