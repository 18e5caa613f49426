"""What a check costs: hogs that are planted in a command are seen, and bare passes are those asked.

Limits are far from what is planted: the machine may be busy with other tests.
"""

import json
import sys
import textwrap
from pathlib import Path

import pytest
from checkout import ROOT

from tools import bare, everyday
from tools.measure import disk_use, measure
from twincheck.common.pair.pairs import load_pair

MB = 1_000_000
TINY = ROOT / "tests" / "pairs" / "small_cnn"
START = "import mmap, os, pathlib, subprocess, sys, time\n"
# What each leaves behind or lets go again after half a second.
DISK_HOG = """
file = pathlib.Path("hog")
file.write_bytes(bytes(range(256)) * 160_000)
time.sleep(0.5)
file.unlink()
"""
UNLINKED_HOG = """
file = open("hog", "wb")
os.unlink("hog")
file.write(bytes(range(256)) * 160_000)
file.flush()
time.sleep(0.5)
"""
MEMORY_HOG = """
subprocess.run([sys.executable, "-c", "import time; a = bytearray(b'x') * 120_000_000;"
                "time.sleep(0.5); del a"])
"""
SHARED_HOG = """
memory = os.memfd_create("hog")
os.truncate(memory, 60_000_000)
mapped = mmap.mmap(memory, 60_000_000)
for _ in range(60):
    mapped.write(b"x" * 1_000_000)
for _ in range(2):
    if os.fork() == 0:
        mapped[:]
        time.sleep(0.5)
        os._exit(0)
os.wait(), os.wait()
"""
UNMAPPED_HOG = """
memory = os.memfd_create("hog")
for _ in range(60):
    os.write(memory, b"x" * 1_000_000)
time.sleep(0.5)
"""
ORPHAN = """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    pathlib.Path("orphan").write_text(str(os.getpid()))
    time.sleep(60)
os.wait()
while not pathlib.Path("orphan").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def cost(tmp_path):
    """Measures a short program that runs in a folder of its own."""

    def run(program, status=0):
        folder = tmp_path / "watched"
        folder.mkdir(exist_ok=True)
        text = f"{START}os.chdir({str(folder)!r})\n{textwrap.dedent(program)}"
        command = [sys.executable, "-I", "-c", text]
        found = measure(command, [folder], tmp_path / "said", every_s=0.05)
        assert found.status == status, (tmp_path / "said").read_text()
        return found

    return run


def test_a_program_that_does_nothing_costs_next_to_nothing(cost):
    found = cost("time.sleep(0.3)")
    assert 0.3 <= found.wall_s < 10.0 and found.cpu_s < 2.0
    assert found.disk == found.disk_kept == 0
    assert 0 < found.memory.total < 40 * MB and found.memory.shared < MB
    assert found.processes == 1 and found.left_behind == 0


@pytest.mark.parametrize("hog", [DISK_HOG, UNLINKED_HOG], ids=["deleted later", "deleted at once"])
def test_disk_that_is_given_back_before_the_end_is_seen(cost, hog):
    found = cost(hog)
    assert 40 * MB <= found.disk < 60 * MB
    assert found.disk_kept == 0


def test_memory_that_a_child_frees_before_the_end_is_seen(cost):
    found = cost(MEMORY_HOG)
    assert 120 * MB <= found.memory.own < 170 * MB
    assert found.processes == 2


@pytest.mark.parametrize("hog", [SHARED_HOG, UNMAPPED_HOG], ids=["mapped by three", "not mapped"])
def test_shared_memory_counts_once(cost, hog):
    assert 60 * MB <= cost(hog).memory.shared < 80 * MB


def test_what_is_left_behind_is_counted_told_and_ended(cost, tmp_path):
    found = cost(ORPHAN)
    assert found.left_behind == 1
    assert found.cpu_s >= 0.4
    pid = (tmp_path / "watched" / "orphan").read_text()
    assert not Path(f"/proc/{pid}").exists()


def test_a_signal_is_a_negative_status(cost):
    cost("os.kill(os.getpid(), 9)", status=-9)


def test_a_file_with_two_names_counts_once(tmp_path):
    (tmp_path / "one").write_bytes(b"x" * MB)
    alone = disk_use([tmp_path])
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    assert disk_use([tmp_path]) == alone >= MB


def test_presets_of_everyday_size_are_there():
    for known in everyday.PAIRS.values():
        pair = load_pair(str(ROOT / known.model) if "/" in known.model else known.model)
        assert pair.config(known.preset)


@pytest.mark.slow
def test_the_whole_command_on_a_tiny_pair(tmp_path, capsys):
    """One check, measured, and the same passes bare."""
    path = tmp_path / "cost.json"
    before = set((ROOT / "log").glob("everyday-*"))
    assert everyday.main(["--pair", str(TINY), "--step", "1", "--json", str(path), "--debug"]) == 0
    told = capsys.readouterr().out
    found = json.loads(path.read_text())
    check, cases = found["check"], load_pair(str(TINY)).cases("default")
    assert check["status"] == 0 and check["rows"] > 10
    assert check["disk"] > 20_000 and check["memory"]["total"] > 200 * MB
    assert check["left_behind"] == 0 and check["processes"] >= 3
    for one in found["bare"].values():
        assert one["passes"] == {"forward": 2 * len(cases)}
        assert one["parameters"] > 0 and set(one["wall_of"]) == {"import", "build", "forward"}
    both = (everyday.WITHOUT_MODEL, ())
    alone, whole = (everyday.ratio(check, found["bare"], "cpu", left_out) for left_out in both)
    assert alone > whole  # less to divide by
    assert told.strip().splitlines()[-1].startswith("check / passes bare with imports")
    assert set((ROOT / "log").glob("everyday-*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("driven, ran", [(["sgd", "adam"], 20), (["sgd"], 10), (None, 0)])
def test_bare_passes_of_step_4_are_those_of_the_check(driven, ran):
    """The set-ups that run the model, updates of the others, and witnesses in float64 alone."""
    from twincheck.common.sides.backend_torch import side

    request = {"step": 4, "setups": ["sgd", "adam"], "steps": 10}
    pair = load_pair(str(TINY))
    (case, *_) = pair.cases("default")
    side.set_up("float64", "cpu", 0)
    try:
        arrays = pair.inputs(case, "default", 0)
        tensors = {name: side.tensor(values) for name, values in arrays.items()}
        one = bare.Bare(side, pair.side("torch"), case, tensors)
        before = {name: side.array(value).copy() for name, value in side.trainable(one.model)}
        counts = {}
        for part, what, times in bare.passes(request, one, "float64", driven):
            what()
            counts[part] = counts.get(part, 0) + times
        after = {name: side.array(value) for name, value in side.trainable(one.model)}
    finally:
        side.set_up("float32", "cpu", 0)
    wanted = {"forward and backward": 1, "witness: forward and backward": 1, "witness: forward": 2}
    wanted["optimizer steps: forward and backward"] = ran
    wanted["optimizer steps: updates"] = 0 if driven is None else 20 - ran
    found, wanted = ({k: n for k, n in of.items() if n} for of in (counts, wanted))
    assert found == wanted
    moved = [name for name in before if (before[name] != after[name]).any()]
    assert bool(moved) == (driven is not None)
    float32 = [part for part, _, _ in bare.passes(request, one, "float32", None)]
    assert float32 == ["forward and backward"]


def test_a_ratio_leaves_out_what_it_says():
    bare = {"torch": {"cpu_of": {"import": 5.0, "forward": 1.0, "witness: forward": 2.0}}}
    check = {"cpu_s": 6.0}
    assert everyday.ratio(check, bare, "cpu", ()) == 0.75
    assert everyday.ratio(check, bare, "cpu", ("import",)) == 2.0
    assert everyday.ratio(check, bare, "cpu", ("import", "witness")) == 6.0


def test_a_pair_that_is_none_is_refused_in_a_sentence(capsys):
    assert everyday.main(["--pair", "resnet19"]) == 2
    assert "neither resnet18, resnet50, bert, enwik8, reformer" in capsys.readouterr().err
