"""What `make install` decides, without installing anything."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import install

ROOT = Path(__file__).resolve().parent.parent


def test_frameworks_are_pinned():
    requirements = install.read_requirements()
    assert {"paddlepaddle==3.3.1", "torch==2.13.0", "reprod_log==1.0.1"} <= set(requirements)


def test_done_means_these_requirements_and_a_python_that_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "STAMP", tmp_path / "installed.json")
    monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
    assert not install.is_done(["a==1"])  # interrupted: no stamp
    install.STAMP.write_text(json.dumps(["a==1"]))
    assert install.is_done(["a==1"])
    assert not install.is_done(["a==2"])
    install.STAMP.write_text("[")
    assert not install.is_done(["a==1"])
    install.STAMP.write_text(json.dumps(["a==1"]))
    monkeypatch.setattr(install, "PYTHON", tmp_path / "gone")
    assert not install.is_done(["a==1"])


@pytest.mark.parametrize(
    "version, fits", [((3, 10), False), ((3, 11), True), ((3, 13), True), ((3, 14), False)]
)
def test_version_fits(version, fits):
    assert install.version_fits(version) is fits


def test_a_server_that_does_not_answer_costs_little(monkeypatch):
    monkeypatch.setattr(install, "PATIENCE_S", 0.3)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert not install.answers(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        assert time.monotonic() - start < 5  # far below a socket's own minutes
    assert not install.answers("no address at all")


def test_help_names_every_target():
    run = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("install", "check", "test", "environments", "lint", "clean"):
        assert f"make {target} " in run.stdout
