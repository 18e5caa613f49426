"""What makes a check cheaper changes nothing that it says."""

import gc
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from builders import python, write_log

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sums import SMALLEST
from twincheck.common.system import processes
from twincheck.common.system.memory import no_collections
from twincheck.common.verdict.judge import judge_logs


def test_the_guides_report_is_made_without_paddle(tmp_path):
    """And leaves no handler to whoever asks for it, which may log what it likes."""
    logs, target = [tmp_path / f"{side}.npy" for side in ("torch", "paddle")], tmp_path / "diff.log"
    run = """import sys, logging
from pathlib import Path
from twincheck.common.report.guide_report import guide_report
*logs, target = map(Path, sys.argv[1:])
print(guide_report(*logs, 1e-6, target), "paddle" in sys.modules, logging.getLogger().handlers)
"""
    for off, passed in ((0.5, False), (0.0, True)):
        for log, more in zip(logs, (0.0, off), strict=True):
            write_log(log, {"logits": np.full((2, 3), 1.0 + more)})
        assert python("-c", run, *logs, target) == f"{passed} False []\n"
        assert f"mean diff: check passed: {passed}, value: {off}" in target.read_text()


@pytest.mark.parametrize("how", [{"summing": True}, {"limit": 10**5}, {}])
def test_large_booleans_take_a_byte_each_in_logs_of_sums(tmp_path, how):
    """And one that is off is found at its place, beside logs that have them in eight bytes."""
    mask = np.arange(SMALLEST).reshape(2, -1) % 3 == 0
    wrong = mask.copy()
    wrong[1, 77] ^= True
    found = []
    for cand, more in ((mask, how), (mask, {}), (wrong, how), (wrong, {})):
        paths = {}
        for name, values in (("ref32", mask), ("cand32", cand), ("ref64", mask), ("cand64", cand)):
            paths[name] = tmp_path / f"{name}.npy"
            arrays = {"mask": values, "few": values[0, :5], "first": np.full(SMALLEST, 0.5)}
            side = "torch" if "ref" in name else "paddle"
            told = {"side": side, "dtype": f"float{name[-2:]}", "batches": {"": 2}}
            write_log(paths[name], arrays, told, **(how if side == "torch" else more))
        with read_log(paths["ref32"]) as log:
            assert log["mask"].dtype == (np.int8 if how else np.int64)
            assert log["few"].dtype == np.int64
        found.append(judge_logs(**paths).rows[0])
    assert [row.verdict for row in found] == ["IDENTICAL", "IDENTICAL", "DIVERGED", "DIVERGED"]
    assert [(row.worst_index, row.beyond) for row in found[2:]] == [((1, 77), 1)] * 2


@pytest.mark.parametrize(
    ("name", "ours"), [("OMP_WAIT_POLICY", "PASSIVE"), ("MALLOC_MMAP_MAX_", "0")]
)
def test_a_workers_variable_is_what_the_user_says_it_is(monkeypatch, name, ours):
    monkeypatch.delenv(name, raising=False)
    assert processes.environment()[name] == ours
    monkeypatch.setenv(name, "theirs")
    assert processes.environment()[name] == "theirs"


PAGES = """
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for letter in [b"x"] * 20:
    values = letter * 2**26
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these variables are glibc's")
def test_a_large_array_is_asked_of_the_system_once():
    """In a worker; a process as the user's asks for each of 20."""
    asked = []
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    for values in (plain, processes.environment()):
        command = [sys.executable, "-c", PAGES]
        done = subprocess.run(command, env=values, capture_output=True, text=True, check=True)
        asked.append(int(done.stdout))
    assert asked[0] > 15 * 2**26 and asked[1] < 3 * 2**26


FREED = """
from twincheck.common.system.memory import give_back_freed_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1])
before = resident()
held = [b"x" * 2**26]
held.append(held)
sizes = [resident() - before]
del held
give_back_freed_memory()
print(resident() - before < sizes[0] / 2)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="its malloc_trim")
def test_a_worker_gives_back_what_is_free_before_it_waits():
    command = [sys.executable, "-c", FREED]
    environment = processes.environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_collections_rest_inside_and_go_on_behind(monkeypatch):
    assert gc.isenabled()
    with pytest.raises(KeyError), no_collections():
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_view_is_what_the_array_is():
    """Values of tensors of all kinds; those of usual floats are seen where they are."""
    import paddle

    from twincheck.common.sides.backend_paddle import side

    values = paddle.to_tensor(np.arange(12.0).reshape(3, 4))
    kinds = [values.astype(kind) for kind in ("float32", "bfloat16", "int64", "bool", "complex64")]
    for tensor in (values, values.t(), values[1:, ::2], values[:0], values.sum(), *kinds):
        seen = side.view(tensor)
        assert seen.dtype == side.array(tensor).dtype and seen.shape == side.array(tensor).shape
        np.testing.assert_array_equal(seen, side.array(tensor))
    values.stop_gradient = False
    seen = side.view(values)
    with paddle.no_grad():
        values.add_(paddle.ones_like(values))
    assert seen[0, 0] == 1.0


def test_what_stands_in_for_operators_serves_the_model_that_is_built():
    """Made once a process, it speaks for the one that is inside, not for the first."""
    import paddle

    from twincheck.common.sides.blank_in_paddle import Blanks, Read

    first, second = Blanks(), Blanks()
    with first:
        layer = paddle.nn.Linear(3, 2)
        assert first.has(layer.weight)
    with second, pytest.raises(Read):
        paddle.nn.Linear(3, 2).weight.abs()
    assert second.read and not first.read
