"""Models that cast to float32 inside: their float64 runs are float64, their float32 runs as before.

tests/upcast_calls.py makes what it makes in a process of its own; faults/pairs/casts are models.
"""

import json

import pytest
from builders import a_case, a_net, copied, ended, judged, paddles, python, write_pair
from checkout import ROOT, Checkout, change

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.run_kind import RunKind

AGREEING = {"IDENTICAL", "ROUNDING"}
WIDE = {"float64", "complex128"}


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_every_way_to_make_a_narrow_float_is_lifted_and_only_in_a_float64_run(side):
    found = json.loads(python(str(ROOT / "tests" / "upcast_calls.py"), side))
    assert len(found["made"]) > 50
    assert {k: v for k, v in found["made"].items() if v[1] not in WIDE} == {}
    assert {k: v for k, v in found["made"].items() if v[0] in WIDE or v[2] != v[0]} == {}
    assert found["tables"] == ["float32", "float64", "float32"]
    whats = {what for whats in found["counts"].values() for what in whats}
    assert {"float64 to float32", "int64 to float32", "made in float32"} <= whats
    assert all(place.startswith(str(ROOT / "tests")) for place in found["counts"])


# ---- whole checks -------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    return copied(ROOT / "faults" / "pairs" / "casts", tmp_path)


def run(checkout, folder, step, *options):
    done, rows = judged(checkout, step, folder, *options)
    return done, rows, [key for key, row in rows.items() if row["verdict"] not in AGREEING]


@pytest.mark.slow
def test_every_row_of_models_that_cast_is_rounding(checkout, pair):
    """And the check says what was upcast, by the lines of the model."""
    done, rows, off = ended(0, run(checkout, pair, 1))
    assert not off and {key.split("/")[0] for key in rows} == {
        *("decoder", "relative", "shared", "one_sided", "tables", "complex")
    }
    assert "casts to float32 (or less) inside the model are casts to float64" in done.stdout
    files = ResultFolder(checkout.logs(1, "casts"))
    for side in SIDES:
        upcast = read_sidecar(files.log("forward_all", side, RunKind.FLOAT64)).upcast
        lines = (pair / f"{side}_model.py").read_text().splitlines()
        norm = next(i for i, line in enumerate(lines, 1) if line.startswith("        wide = x."))
        (calls,) = (whats for place, whats in upcast.items() if place.endswith(f".py:{norm}"))
        assert calls["float64 to float32"] >= 10
        assert read_sidecar(files.log("forward_all", side)).upcast == {}


def test_gradients_and_steps_of_a_cast_on_one_side_alone_are_rounding(checkout, pair):
    _, rows, off = ended(0, run(checkout, pair, 4, "--preset", "one_sided"))
    assert not off and any("/adamw/001/weight/" in key for key in rows)


def test_a_transplanted_softmax_in_float32_is_lifted_too(checkout, pair):
    options = ("--case", "decoder", "--transplant", "softmax")
    _, rows, off = ended(0, run(checkout, pair, 1, *options))
    assert rows and not off


@pytest.mark.parametrize("instead", [", dtype='float32'))", "), paddle.get_default_dtype())"])
def test_a_table_is_noted_where_the_port_has_it_in_float64(checkout, tmp_path, instead):
    """A port whose table is float32 by itself has none that the check rounds."""
    made = "self.fc, self.t = nn.Linear(4, 4), torch.tensor(np.linspace(0, 1, 4, dtype='float32'))"
    net = "import numpy as np\n" + a_net(made, "return self.fc(x * self.t)")
    port = paddles(net, (", dtype='float32'))", instead))
    case = a_case('"x": rng.standard_normal((3, 4)), "labels": rng.integers(0, 4, 3)')
    done, _, off = ended(0, run(checkout, write_pair(tmp_path / "net", case, net, port), 1))
    assert ("is rounded to float32" in done.stdout) == ("default" in instead) and not off


@pytest.mark.slow
def test_a_fault_among_casts_is_found_at_its_line(checkout, pair):
    """A divisor that float32 just sees, beside casts of the other side."""
    divisor = "paddle.arange(0, self.size, 2) / {}"
    wrong = divisor.format("self.size"), divisor.format("(self.size + 1e-5)")
    change(pair / "paddle_model.py", *wrong)
    _, rows, off = ended(1, run(checkout, pair, 1, "--case", "one_sided"))
    assert off[0] == "one_sided/blocks.0.attention.rotary"
    assert rows[off[0]]["verdict"] == "DIVERGED"


@pytest.mark.slow
def test_a_file_that_keeps_tensors_is_imported_for_each_precision(checkout, pair, tmp_path):
    """Plants what that is for: one import for both, whose tables of a float64 run stay for float32.

    Of float32, since both sides' float64 runs would then use the same rounded tables.
    """
    once = Checkout(tmp_path)
    once.replace("common/sides/model_file.py", "module, import_again(job)", "module, module")
    logs = []
    for copy in (checkout, once):
        run(copy, pair, 1, "--case", "tables")
        files = ResultFolder(copy.logs(1, "casts"))
        logs.append([files.log("forward_all", side).read_bytes() for side in SIDES])
    assert all(ours != theirs for ours, theirs in zip(*logs, strict=True))
