"""No verdict depends on the processor: what tests and workers are told of it."""

import os
import runpy
import sys

import pytest
from checkout import ROOT

from twincheck.common.system import processes as runner

SETTING = "MKL_DEBUG_CPU_TYPE"


@pytest.mark.parametrize("is_amd", [True, False])
def test_tests_and_workers_have_the_setting_on_amd_alone(monkeypatch, is_amd):
    """Intel's MKL obeys it as well, and takes a path that no user has unless he asks for it."""
    monkeypatch.setattr(runner, "processor_is_amd", lambda: is_amd)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(SETTING, "")  # so that it is put back where it was not set
    monkeypatch.delenv(SETTING)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    workers = runner.environment().get(SETTING)
    runpy.run_path(str(ROOT / "conftest.py"))
    assert os.environ.get(SETTING) == workers == ("5" if is_amd else None)
    monkeypatch.setenv(SETTING, "4")
    runpy.run_path(str(ROOT / "conftest.py"))
    assert os.environ[SETTING] == runner.environment()[SETTING] == "4"
