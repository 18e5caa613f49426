"""Error against depth: the table, the picture, and weights that training made."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from builders import python, write_log
from checkout import ROOT, Checkout

from tools import depth
from twincheck.common.logs.reader import read_log
from twincheck.common.system.errors import UserError


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Weights of the preset text that are not the initial ones, in a file."""
    from twincheck.common.pair.pairs import load_pair
    from twincheck.common.sides import torch_side as side
    from twincheck.common.weights.noise import with_noise
    from twincheck.common.weights.states import save_state

    pair = load_pair("reformer")
    side.set_up("float32", "cpu", 0)
    model = pair.side("torch").build(pair.config("text"))
    path = tmp_path_factory.mktemp("my weights") / "checkpoint.npz"
    save_state(path, with_noise("trained-like", side.state(model), side.owners(model), 0))
    return path


@pytest.fixture(scope="module")
def rows(checkpoint):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", *Checkout.interpreter)  # what runs the check
        return depth.measured("text", str(checkpoint))


def test_every_named_tensor_of_all_12_layers_is_measured(rows):
    assert len(rows) > 297
    for layer in range(12):
        assert any(f".layers.{layer}." in row["key"] for row in rows)
    assert {row["verdict"] for row in rows} <= {"IDENTICAL", "ROUNDING", "FLIP"}
    last = [row for row in rows if row["key"].endswith(".hidden_states")][-1]
    assert last["mean"] <= last["max"] and last["gap"] < 1e-6 * last["torch"]


def test_distances_are_the_logs_own(tmp_path):
    """Against plain NumPy, on logs that are made up."""
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(4, 5))
    values = {
        "torch": np.float32(exact + 1e-3),
        "paddle": np.float32(exact - 1e-3),
        "torch_fp64": exact,
        "paddle_fp64": exact + 1e-9,
    }
    for name, array in values.items():
        write_log(tmp_path / f"forward_all_{name}.npy", {"a": array, "ids": np.arange(3)})
    (row,) = depth.distances(tmp_path)
    assert row["key"] == "a"
    assert row["mean"] == pytest.approx(2e-3, rel=1e-3) and row["max"] >= row["mean"]
    assert row["torch"] == pytest.approx(1e-3, rel=1e-3)
    assert row["paddle"] == pytest.approx(1e-3, rel=1e-3)
    assert row["gap"] == pytest.approx(1e-9, rel=1e-3)
    with read_log(tmp_path / "forward_all_torch.npy") as log:
        assert list(log) == ["a", "ids"]


def test_table_and_picture(rows, tmp_path):
    depth._write_table(tmp_path / "a folder" / "text.csv", rows)
    with open(tmp_path / "a folder" / "text.csv", newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["key"] for row in read] == [row["key"] for row in rows]
    text = depth.as_markdown({"text, trained": rows})
    assert f"| text, trained | {len(rows)} | " in text
    depth.draw({"text, trained": rows}, tmp_path / "depth.png")
    assert (tmp_path / "depth.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def stored(rows, tmp_path, monkeypatch):
    """Tables of an earlier run, a page and a folder of pictures that a test may change."""
    monkeypatch.setattr(depth, "TABLES", tmp_path / "tables")
    monkeypatch.setattr(depth, "PICS", tmp_path / "pics")
    monkeypatch.setattr(depth, "PAGE", tmp_path / "how-judged.md")
    (tmp_path / "how-judged.md").write_text("<!-- generated: depth -->\nold\n<!-- end -->\n")
    for preset in depth.PRESETS:
        for word in depth.WEIGHTS:
            depth._write_table(depth._table(f"{preset}, {depth._words(word)}"), rows)
    return tmp_path


def test_pages_and_their_picture_are_written_when_that_is_asked_for(stored, rows, capsys):
    assert depth.main(["--stored"]) == 0
    assert "| enwik8-lsh-12, trained-like weights | " in capsys.readouterr().out
    assert (stored / "tables" / "depth.png").is_file() and not (stored / "pics").exists()
    assert "old" in (stored / "how-judged.md").read_text()
    assert depth.main(["--stored", "--write"]) == 0
    assert (stored / "pics" / "depth.png").is_file()
    page = (stored / "how-judged.md").read_text()
    assert f"| enwik8-local-2, random weights | {len(rows)} | " in page and "old" not in page


def test_samples_are_not_taken_for_tensors(tmp_path):
    """The fault that was there: a log of sums measured as if it held every value."""
    arrays = {"a": np.zeros((4, 5), dtype=np.float32)}
    for name in ("torch", "paddle", "torch_fp64", "paddle_fp64"):
        write_log(tmp_path / f"forward_all_{name}.npy", arrays)
    assert len(list(depth.distances(tmp_path))) == 1
    write_log(tmp_path / "forward_all_paddle.npy", arrays, {"sums": {"a": [4, 5]}})
    with pytest.raises(UserError, match="forward_all_paddle.npy: a sample of large tensors; run"):
        list(depth.distances(tmp_path))


def test_a_wrong_preset_is_one_sentence():
    with pytest.raises(UserError, match="no such preset"):
        depth.measured("enwik9", None)


def test_the_matmul_example_shows_each_sides_own_error():
    compare = str(ROOT / "examples" / "matmul" / "compare.py")
    lines = [line.split("│") for line in python(compare).splitlines() if "N(0" in line]
    assert len(lines) == 3
    for line in lines:
        apart, torch, paddle, step = (float(cell) for cell in line[2:6])
        assert apart <= 1.01 * (torch + paddle), "no further apart than both are from exact"
        assert step < torch < 100 * step and step < paddle < 100 * step
    command = [sys.executable, "-W", "ignore", compare, "--device", "gpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr
