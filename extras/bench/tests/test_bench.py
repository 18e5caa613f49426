"""make bench: sides that take turns, a planted peer that is faster, and results that are kept.

Peers' own packages are not needed: what is slow or fast here is planted.
"""

import json
import subprocess
import sys

import pytest
from checkout import ROOT

from twincheck.extras.bench import command as bench
from twincheck.extras.bench import comparisons, page, turns
from twincheck.extras.bench.comparisons import Comparison, Program, Series

# Steps that take so many seconds of CPU and leave so many bytes behind.
PLANTED = """
import time
def step_of(seconds, megabytes=0, fails=False):
    kept = []
    def step():
        if fails:
            raise SystemExit("the planted peer ended")
        print("a line that is no answer")
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass
        kept.append(b"x" * int(megabytes * 1_000_000))
    return step
"""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Makes programs whose costs are known, and lets `bench` know these rows alone."""
    (tmp_path / "planted.py").write_text(PLANTED)
    plain = turns.environment
    monkeypatch.setattr(
        turns, "environment", lambda: plain() | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    )

    def program(name, **setting):
        return Program(name, setting, program="planted:step_of")

    def rows(**found):
        monkeypatch.setattr(bench, "comparisons", lambda quick: dict(found))
        monkeypatch.setattr(bench, "series", lambda quick: {})

    return program, rows


def run(tmp_path, *options):
    return bench.main(["--out", str(tmp_path / "out"), *options])


def stored(tmp_path):
    return json.loads((tmp_path / "out" / bench.RESULTS).read_text())


def test_a_faster_peer_is_a_miss_and_a_slower_one_is_not(planted, tmp_path, capsys):
    program, rows = planted
    slow, fast = program("slow", seconds=0.12), program("fast", seconds=0.02)
    rows(
        missed=Comparison("we are slow", slow, fast, "faster", 1.3),
        reached=Comparison("we are fast", fast, slow, "faster", 1.3),
        long=Comparison("we take long", slow, fast, "slower", 1.3),
    )
    assert run(tmp_path, "--repetitions", "2") == 0
    said = capsys.readouterr().out
    assert "we are slow: wall 0." in said and "goal ≥ 1.3: MISSED" in said
    found = stored(tmp_path)
    assert found["missed"]["cpu"]["ratio"] < 0.5 < 2 < found["reached"]["cpu"]["ratio"]
    assert len(found["missed"]["turns"]) == 2 and found["missed"]["sides"] == ["slow", "fast"]
    table = (tmp_path / "out" / bench.PAGE).read_text().splitlines()
    words = {
        line.split("|")[1].strip(): line.split("|")[5].strip() for line in table if "we " in line
    }
    assert words == {
        "we are slow": "**missed**",
        "we are fast": "reached",
        "we take long": "**missed**",
    }


def test_memory_above_what_was_built(planted, tmp_path):
    program, rows = planted
    large, small = (program("p", seconds=0, megabytes=size) for size in (60, 6))
    rows(
        leaner=Comparison("lean", small, large, "leaner", 0.2),
        fatter=Comparison("fat", large, small, "leaner", 0.2),
    )
    assert run(tmp_path) == 0
    found = stored(tmp_path)
    assert found["leaner"]["memory"]["ratio"] == pytest.approx(0.1, rel=0.3)
    rows_of = bench.comparisons(False)
    assert turns.passed(rows_of["leaner"], found["leaner"])
    assert not turns.passed(rows_of["fatter"], found["fatter"])


@pytest.mark.slow
def test_only_refreshes_one_row_and_keeps_the_others(planted, tmp_path):
    program, rows = planted
    one = Comparison("one", program("a", seconds=0), program("b", seconds=0.01), "faster", 1.3)
    rows(first=one, second=one)
    assert run(tmp_path, "--repetitions", "1") == 0
    before = stored(tmp_path)
    assert run(tmp_path, "--repetitions", "3", "--only", "second") == 0
    after = stored(tmp_path)
    assert after["first"] == before["first"] and len(after["second"]["turns"]) == 3


def test_a_peer_that_ends_leaves_the_other_rows(planted, tmp_path, capsys):
    program, rows = planted
    fine, ends = program("fine", seconds=0), program("their program", seconds=0, fails=True)
    rows(
        broken=Comparison("broken", fine, ends, "faster", 1.3),
        whole=Comparison("whole", fine, fine, "slower", 9e9),
    )
    assert run(tmp_path, "--repetitions", "1") == 2
    said = capsys.readouterr().err
    assert "broken was not measured: their program ended: the planted peer ended" in said
    assert list(stored(tmp_path)) == ["whole"]


def test_an_environment_that_is_not_there_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "series", lambda quick: {})
    options = ("--no-install", "--cache", str(tmp_path), "--only", "paddlenlp", "--quick")
    assert run(tmp_path, *options) == 2
    assert f"the environment paddlenlp is not in {tmp_path}" in capsys.readouterr().err
    assert list(tmp_path.glob("paddlenlp*")) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--only", "nothing"), "--only nothing: there are transformers-8192"),
        (("--quick", "--out", str(ROOT)), "--quick shows nothing that the page should say"),
        (("--repetitions", "0"), "--repetitions 0: at least one turn is needed"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, capsys, options, text):
    where = () if "--out" in options else ("--out", str(tmp_path))
    assert bench.main([*where, *options]) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}")


def test_results_of_another_kind_are_refused(tmp_path, capsys):
    path = tmp_path / "out" / bench.RESULTS
    path.parent.mkdir(parents=True)
    path.write_text("[1]")
    assert run(tmp_path, "--stored") == 2
    assert "error" in capsys.readouterr().err and path.read_text() == "[1]"


@pytest.mark.slow
def test_the_smallest_sizes_of_the_real_programs(tmp_path):
    """The torch twin and judging beside reprod_log, as typed."""
    command = [sys.executable, "-m", "tools.bench", "--quick", "--repetitions", "1"]
    command += ["--only", "growth", "--only", "logs-memory", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    found = json.loads((tmp_path / bench.RESULTS).read_text())
    assert set(found) == {"growth", "logs-memory"}
    assert all(second > 0 for second in found["growth"]["cpu"]["seconds"])
    assert "torch twin, time a token" in (tmp_path / bench.PAGE).read_text()


def test_exponents_are_those_of_the_points(tmp_path):
    one = Series("length", "tokens", (10, 100, 1000))
    points = [{"tokens": n, "cpu": 3.0 * n**2, "wall": 1.0, "memory": 5.0 * n} for n in one.values]
    assert page.power(one, points, "cpu") == pytest.approx(2.0)
    assert page.power(one, points, "memory") == pytest.approx(1.0)
    picture = tmp_path / "picture.png"
    page.draw({"length": one}, {"length": {"points": {"reformer_torch": points}}}, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_parameters_of_a_layer_are_the_twin_s():
    """What is taken off an added layer's memory is its parameters' gradients, and no more."""
    from twincheck.common.models.reformer.torch_model import build
    from twincheck.extras.bench import programs

    def count(layers):
        model = build(programs.reformer_config(256, layers) | {"head": "lm"})
        return sum(value.numel() for value in model.parameters())

    assert count(4) - count(2) == 2 * comparisons.LAYER_PARAMETERS
