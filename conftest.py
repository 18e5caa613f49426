"""What every test needs: the checkout on the path, and the frameworks' threads settled.

The environment is set here because it must be there before a framework is imported, and because
the processes that tests start inherit it.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent

# In importlib mode pytest puts nothing on the path: the checkout, and the tests' own helpers.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# What tests read is English, whatever the machine's locale.
os.environ["LANGUAGE"] = "en"
# Small tensors gain nothing from many threads, and test files run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from twincheck.common.system.processes import environment  # noqa: E402  (NumPy reads the number of threads)

# As the workers have it: what a test runs itself would else run in no warm interpreter.
for name, value in environment().items():
    if name.startswith(("MALLOC_", "MKL_", "OMP_")):
        os.environ[name] = value
# No test depends on a GPU: on a machine that has one, none is seen.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Figures are written, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")
# Started in the background, a suite has these ignored, and so would all that it starts.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

from faults.checkout import Checkout  # noqa: E402
from faults.warm import Interpreters  # noqa: E402

# These change what a process is started with, or are about processes: each has its own.
COLD = ("test_check", "test_conditions", "test_environments")

# These begin first, or the suite would wait for one of them at its end.
LONGEST = "mend readme own_port issue export live sidecars why processes".split()


def pytest_configure(config):
    """Start the warm interpreters (faults/warm), one set for all of xdist's workers."""
    given = getattr(config, "workerinput", None)
    config.warm = None if given else Interpreters()
    config.warm_python = given["warm_python"] if given else config.warm.python
    # xdist would begin with the files that have most tests: those that run nothing.
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """The longest files first."""
    rank = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem.removeprefix("test_"), len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a worker of xdist where they are."""
    node.workerinput["warm_python"] = node.config.warm_python


def pytest_unconfigure(config):
    """End them."""
    if getattr(config, "warm", None):
        config.warm.close()


@pytest.fixture(scope="module", autouse=True)
def interpreter_of_checks(request):
    """Checks of copies of the checkout run in warm interpreters, but for a few files' tests."""
    cold = request.module.__name__.rpartition(".")[2] in COLD
    python = sys.executable if cold else request.config.warm_python
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkout, "interpreter", (python,))
        yield


@pytest.fixture(scope="module")
def browser():
    """Chromium, to open pages in."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium in PATH: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: make install")
    with playwright.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def warm(request, monkeypatch):
    """In a file whose checks are cold: this test is not about its check's processes."""
    monkeypatch.setattr(Checkout, "interpreter", (request.config.warm_python,))


@pytest.fixture(autouse=True)
def _usual_dtype():
    """A test that builds in float64, or reads Chinese, leaves the next one what it found."""
    yield
    os.environ["LANGUAGE"] = "en"
    for framework in (sys.modules.get("torch"), sys.modules.get("paddle")):
        if framework is not None and hasattr(framework, "set_default_dtype"):
            name = framework.__name__
            framework.set_default_dtype(framework.float32 if name == "torch" else "float32")
