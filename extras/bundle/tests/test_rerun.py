"""A bundle's checks are run again, and what was made up is found out by that."""

import pytest

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.runner import run_step
from twincheck.common.check_all import all_steps
from twincheck.common.pair.request import RunRequest
from twincheck.extras.bundle import verify
from twincheck.extras.bundle.results import bundle_results
from twincheck.extras.bundle.tests.bundled import Forgery, make_bundle, seed_everywhere
from twincheck.extras.bundle.verification import verify_bundle


@pytest.mark.slow
def test_running_again_finds_what_nothing_inside_speaks_against(
    tmp_path, capsys, monkeypatch, request
):
    """Another seed, put in everywhere: the tensors of that seed are others."""
    python = request.config.warm_python
    monkeypatch.setattr("twincheck.common.check.runner.python_for", lambda *_: python)
    step = all_steps()[0]
    run = RunRequest(cases=("main",), probes=("dense_linear",))
    options = CheckOptions(run, ("fastformer",), tmp_path, no_report=True)
    path = tmp_path / "bundle.zip"
    bundle_results(run_step(step, options, lambda *_: None), options, path)
    forgery = Forgery(path)
    seed_everywhere(forgery)
    for part in forgery.manifest["parts"]:
        part["asked"]["seed"] = 5
    forged = forgery.write(tmp_path / "forged.zip", True)
    assert verify_bundle(forged).problems == []
    assert verify.main([str(path), "--rerun"]) == 0
    assert "came out with the same bits, 0 but for rounding" in capsys.readouterr().out
    assert verify.main([str(forged), "--rerun"]) == 1
    assert "run again, torch's main/" in capsys.readouterr().out


def test_a_pair_of_somebody_else_is_not_run(tmp_path, monkeypatch, capsys):
    bundle = make_bundle(tmp_path)
    monkeypatch.setattr("twincheck.extras.bundle.again.run_step", lambda *_: pytest.fail("run"))
    assert verify.main([str(bundle), "--rerun"]) == 0
    assert "not run again: a pair that is not of this checkout" in capsys.readouterr().out


def test_a_bundle_that_was_changed_is_not_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("twincheck.extras.bundle.again.run_step", lambda *_: pytest.fail("run"))
    forgery = Forgery(make_bundle(tmp_path))
    seed_everywhere(forgery)
    forged = forgery.write(tmp_path / "forged.zip", False)
    assert verify.main([str(forged), "--rerun"]) == 1
    assert "CHANGED since it was written" in capsys.readouterr().out
