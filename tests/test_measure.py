"""What a command costs: hogs that are planted in it are seen.

Limits are far from what is planted: the machine may be busy with other tests.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from checkout import ROOT

from tools.measure import Memory, disk_use, main, measure
from twincheck.common.pair.pairs import load_pair

MB = 1_000_000
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
        found = measure(command, [folder], every_s=0.05)
        assert found.status == status
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


@pytest.mark.parametrize(
    "text",
    re.findall(r"^\| .* \| `(\S+ --preset \w+)", (ROOT / "docs/performance.md").read_text(), re.M),
)
def test_presets_whose_cost_the_page_tells_are_there(text):
    model, _, preset = text.split()
    assert load_pair(str(ROOT / model) if "/" in model else model).config(preset)


def test_a_whole_check_as_typed(tmp_path):
    """The command's own folder, what it keeps beside, its temporary files, and what is told."""
    pair = str(ROOT / "tests" / "pairs" / "small_cnn")
    typed = ["step1", pair, "--preset", "default", "--out", "out", "--no-report"]
    command = [sys.executable, "-m", "tools.measure", "--folder", "out", "--json", "cost.json"]
    command += ["--", sys.executable, "-m", "twincheck", *typed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "cost.json").read_text())
    assert found["status"] == 0 and "ALIGNED in step 1" in done.stdout
    assert found["disk"] >= found["disk_kept"] > 20_000
    assert found["memory"]["total"] > 200 * MB
    assert found["left_behind"] == 0 and found["processes"] >= 3
    assert done.stdout.splitlines()[-1].endswith(f"{found['disk_kept'] / MB:.1f} kept")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "cost.json"}


def test_a_command_that_is_none_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["--", "no-such-program"]) == 2
    assert capsys.readouterr().err == "error: no-such-program: No such file or directory\n"
    assert not list(tmp_path.iterdir())


def test_memory_adds_up():
    assert Memory(own=1, files=2, shared=3).total == 6
