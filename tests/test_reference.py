"""Former or foreign torch logs: kept, taken over, or refused, with a reason."""

import shutil

import pytest
from builders import ended, without
from checkout import CHECKS, Checkout, change

pytestmark = pytest.mark.slow

MODEL = "fastformer"
REUSE = ("--model", MODEL, "--no-report", "--reuse", "torch")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy whose step 1 has been run once, its logs sent to another folder too."""
    made = Checkout(tmp_path_factory.mktemp("reference"))
    ended(0, made.check(1, "--model", MODEL, "--no-report"))
    shutil.copytree(made.path("step1_forward/log"), made.elsewhere / "sent logs")
    return made


def times(checkout):
    """Return when each side's log was made."""
    folder = checkout.path("step1_forward/log") / MODEL
    return [(folder / f"forward_all_{side}.npy").stat().st_mtime_ns for side in ("torch", "paddle")]


def test_reuse_keeps_the_torch_side_until_something_it_needs_changes(checkout):
    torch, paddle = times(checkout)
    done = ended(0, checkout.check(1, *REUSE))
    assert "torch logs were kept" in done.stdout
    assert times(checkout)[0] == torch and times(checkout)[1] > paddle

    model = checkout.path(f"common/models/{MODEL}/torch_model.py")
    model.write_text(model.read_text() + "# another source\n")
    done = ended(0, checkout.check(1, *REUSE))
    assert "run again: changed since: sources" in done.stdout
    assert times(checkout)[0] > torch

    done = ended(0, checkout.check(1, *REUSE, "--seed", "1"))
    assert "run again: changed since: configuration" in done.stdout


def test_reuse_does_not_trust_a_log_that_was_changed(checkout):
    log = checkout.path("step1_forward/log") / MODEL / "forward_all_torch.npy"
    checkout.check(1, "--model", MODEL, "--no-report")
    content = bytearray(log.read_bytes())
    content[-100] ^= 1
    log.write_bytes(content)
    done = ended(0, checkout.check(1, *REUSE))
    assert "run again: forward_all_torch.npy is not the file" in done.stdout


def test_logs_from_somebody_else_take_the_place_of_torch(checkout):
    asked = ("-c", without("torch"), str(checkout.path(CHECKS[1])), "--model", MODEL)
    sent = ("--reference", str(checkout.elsewhere / "sent logs"))
    ended(0, checkout.python(*asked, "--no-report", *sent))
    # The same trick without the logs fails, so torch was not asked for above.
    done = ended(2, checkout.python(*asked))
    assert "torch is not installed" in done.stderr


def test_logs_of_other_inputs_or_a_wrong_folder_are_refused(checkout):
    former = times(checkout)
    sent = checkout.elsewhere / "sent logs"
    arguments = ("--model", MODEL, "--no-report", "--reference", str(sent), "--seed", "5")
    done = ended(2, checkout.check(1, *arguments))
    assert "from different seeds: 0 and 5; the two logs are from different inputs" in done.stderr
    assert times(checkout) == former, "the former result stays"

    nothing = str(checkout.elsewhere / "nothing")
    done = ended(2, checkout.check(1, "--model", MODEL, "--reference", nothing))
    assert "no forward_all_torch.npy" in done.stderr

    spoilt = shutil.copytree(sent, checkout.elsewhere / "spoilt") / MODEL
    shutil.copy(spoilt / "forward_all_paddle.npy", spoilt / "forward_all_torch.npy")
    done = ended(2, checkout.check(1, "--model", MODEL, "--reference", str(spoilt)))
    assert "forward_all_torch.npy is not the file that its sidecar describes" in done.stderr


def test_stale_logs_are_refused(checkout):
    assert checkout.check(1, "--model", MODEL, "--no-report").returncode == 0
    model = checkout.path(f"common/models/{MODEL}/paddle_model.py")
    text = model.read_text()
    model.write_text(text.replace("epsilon=layer_norm_eps", "epsilon=1e-5"))
    done = ended(2, checkout.check(1, "--model", MODEL, "--compare-only"))
    assert "forward_all_paddle.npy is stale: paddle_model.py" in done.stderr
    model.write_text(text)
    assert checkout.check(1, "--model", MODEL, "--compare-only").returncode == 0


def test_enable_compat_is_refused_on_torchs_side(checkout, pair):
    compat = "import paddle\n\npaddle.enable_compat()\nimport torch\n"
    change(pair / "torch_model.py", "import torch\n", compat)
    done = ended(2, checkout.check(1, "--model", str(pair)))
    assert "`import torch` gives Paddle here (paddle.enable_compat)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_a_pair_without_a_float64_path_gets_the_guides_verdict(checkout, pair, side):
    before = {"torch": "self.features(images)", "paddle": "self.body(images)"}[side]
    after = before.replace("images", "images if '32' in str(images.dtype) else None")
    change(pair / f"{side}_model.py", before, after)
    done, report = ended(0, checkout.rows(1, "--model", str(pair), "--no-report"))
    assert report["verdict"] == "CLOSE"
    assert f"the {side} side has no float64 path: " in done.stdout
    assert f"{side}_model.py" in done.stdout
