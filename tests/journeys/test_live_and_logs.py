"""Models in memory, a test of one's own, and logs that somebody else made: as README says."""

import numpy as np
import pytest
from packaged import Installed, build_wheel
from person import PADDLE, TORCH, Person
from reprod_log import ReprodLogger

LIVE = """
import numpy as np
import twincheck
from ported import Net as Port
from theirs import Net

x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
result = twincheck.check(Net(), Port(), {"x": x}, carry="torch")
print(result)
"""
TEST = """
import numpy as np
import twincheck
from ported import Net as Port
from theirs import Net


def test_the_port():
    x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    twincheck.assert_aligned(Net(), Port(), {"x": x}, carry="torch")


def test_with_the_fixture(twincheck):
    x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    twincheck(Net(), Port(), {"x": x}, carry="torch")
"""


@pytest.fixture
def me(tmp_path):
    person = Person(tmp_path / "my models")
    person.writes({"theirs.py": TORCH, "ported.py": PADDLE, "live.py": LIVE, "test_port.py": TEST})
    return person


def test_two_live_models_and_tests_with_the_wheel(me, tmp_path):
    installed = Installed(tmp_path / "environment", build_wheel(tmp_path))
    me.path, python = installed.python.parent, installed.python
    said = me.types(f"{python} live.py")
    assert "epsilon is 1e-06 in torch and 1e-05 in Paddle" in said
    said = me.types(f"{python} -m pytest -q test_port.py", 1)
    assert "epsilon is 1e-06 in torch" in said and "2 failed" in said
    assert "test_port.py" in said and f"{installed.packages}/twincheck" not in said
    me.follow()
    me.writes({"ported.py": PADDLE.replace("LayerNorm(width)", "LayerNorm(width, epsilon=1e-6)")})
    assert "ALIGNED" in me.types(f"{python} live.py").splitlines()[0]
    assert "2 passed" in me.types(f"{python} -m pytest -q test_port.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("off", "status", "verdict"),
    [(2e-7, 0, "CLOSE"), (1e-2, 1, "UNDECIDED"), (0.0, 2, "the same bytes")],
)
def test_logs_that_reprod_log_wrote(me, off, status, verdict):
    """Paddle's of 2021, whose loss has an axis; given twice they are refused."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 8)).astype("float32")
    for side, more, shape in (("torch", 0.0, ()), ("paddle", off, (1,) if off else ())):
        log = ReprodLogger()
        log.add("logits", logits + np.float32(more))
        log.add("loss", np.full(shape, 0.7 + more, "float32"))
        log.save(str(me.home / f"forward_{side}.npy"))
    said = me.types("twincheck compare forward_torch.npy forward_paddle.npy", status)
    assert verdict in said and ("one number" in said) is bool(off)
    me.follow("compare")
