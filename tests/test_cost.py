"""What makes a check cheaper changes nothing that it says."""

import gc
import os
import platform
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from builders import write_log

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sums import SMALLEST
from twincheck.common.report import guide_report
from twincheck.common.system import processes
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.memory import no_collections
from twincheck.common.verdict.judge import judge_logs

# What a reprod_log might be that asks more of Paddle than names: it converts what it is given.
ANOTHER = """
import paddle
class ReprodDiffHelper:
    def compare_info(self, *infos):
        self.infos = [{key: paddle.to_tensor(info[key]) for key in info} for info in infos]
    def report(self, diff_method, diff_threshold, path):
        same = all((self.infos[0][key] == self.infos[1][key]).all() for key in self.infos[0])
        open(path, "w").write("diff check passed" if same else "diff check failed")
"""


@pytest.fixture
def report(tmp_path, monkeypatch):
    """reprod_log's report on two logs, the second off by a number; and whether Paddle was there."""
    packages = tmp_path / "packages"
    (packages / "paddle").mkdir(parents=True)
    (packages / "paddle" / "__init__.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w')\ndef to_tensor(values):\n    return values\n"
    )
    found = processes.environment() | {"PYTHONPATH": f"{packages}:{ROOT}"}
    monkeypatch.setattr(guide_report, "environment", lambda: found)

    def run(off):
        logs = [tmp_path / f"{side}.npy" for side in ("torch", "paddle")]
        for log, more in zip(logs, (0.0, off), strict=True):
            write_log(log, {"logits": np.full((2, 3), 1.0 + more)})
        one = guide_report.GuideReport()
        one.begin(*logs, 1e-6, tmp_path / "diff.log")
        passed = one.wait()
        one.stop()
        return passed, (tmp_path / "diff.log").read_text(), (tmp_path / "imported").exists()

    return run, packages


def test_the_guides_report_is_made_without_paddle(report):
    run, _ = report
    passed, text, imported = run(0.5)
    assert passed is False and not imported
    assert "mean diff: check passed: False, value: 0.5" in text
    assert run(0.0)[0] is True


def test_a_reprod_log_that_asks_more_of_paddle_gets_paddle(report):
    run, packages = report
    (packages / "reprod_log").mkdir()
    (packages / "reprod_log" / "__init__.py").write_text(textwrap.dedent(ANOTHER))
    assert run(0.0) == (True, "diff check passed", True)
    assert run(0.5) == (False, "diff check failed", True)


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

    from twincheck.common.sides.paddle_side import array, view

    values = paddle.to_tensor(np.arange(12.0).reshape(3, 4))
    kinds = [values.astype(kind) for kind in ("float32", "bfloat16", "int64", "bool", "complex64")]
    for tensor in (values, values.t(), values[1:, ::2], values[:0], values.sum(), *kinds):
        seen = view(tensor)
        assert seen.dtype == array(tensor).dtype and seen.shape == array(tensor).shape
        np.testing.assert_array_equal(seen, array(tensor))
    values.stop_gradient = False
    seen = view(values)
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
