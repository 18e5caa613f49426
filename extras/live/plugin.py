"""pytest's plugin: the fixture `twincheck`, and a page and a bundle of all tests.

    def test_port(twincheck):
        twincheck(torch_model, paddle_model, {"x": x})       fails with the finding and both lines

`pytest --twincheck-report DIR` keeps the logs of every test in DIR, with one page and one bundle.
Imports neither framework nor anything of the workbench before a test asks for it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_OPTION = "--twincheck-report"


def pytest_addoption(parser):
    """Take --twincheck-report."""
    group = parser.getgroup("twincheck")
    group.addoption(
        _OPTION, metavar="DIR", help="keep the logs of all checks, a page and a bundle of them: out"
    )


class Checks:
    """The fixture that a test is given: called, it asserts; `check` gives the result instead.

    name     of the models on the page: the test's
    command  what runs this test again
    report   where results are kept; None where nobody asked for them
    """

    def __init__(self, name: str, command: str, report: Path | None):
        self.name, self.command, self.report = name, command, report
        self._count = 0

    def check(self, torch_model, paddle_model, inputs, **options):
        """twincheck.check, under the test's name: its Result."""
        import twincheck

        self._count += 1
        name = self.name if self._count == 1 else f"{self.name}_{self._count}"
        options = {"name": name, "report": self.report, **options}
        return twincheck.check(torch_model, paddle_model, inputs, **options)

    def __call__(self, torch_model, paddle_model, inputs, **options):
        """Check two models as `check` does; fail the test where they are not aligned."""
        __tracebackhide__ = True
        (result,) = self._asserted(
            lambda: [self.check(torch_model, paddle_model, inputs, **options)]
        )
        return result

    def pair(self, folder, *words: str, steps: tuple[int, ...] = (1,), reference=None):
        """Check a pair's folder, as `twincheck stepN DIR` does; fails where it is not aligned.

        words      further options of a check, such as "--mode", "eval"
        reference  what `twincheck reference DIR` has made: torch need not be installed then
        """
        __tracebackhide__ = True
        from twincheck.extras.live.pairs import checked

        self._asserted(lambda: checked(Path(folder), words, steps, reference, self.report))

    def _asserted(self, results) -> list:
        """The results that a function gives; fails at the first that is not aligned."""
        __tracebackhide__ = True
        from twincheck.common.system.extras import in_language
        from twincheck.extras.live import Kind
        from twincheck.extras.live.result import NotChecked

        found, told = [], ""
        try:
            for result in results():
                found.append(result)
                if not result.aligned:
                    told = result.message()
                    break
        except NotChecked as error:
            told = in_language(Kind.NOT_COMPARED(why=error.args[0]))
        if told:  # not in the handler: pytest would show both
            again = in_language(Kind.TEST_AGAIN(command=self.command))
            pytest.fail(f"{told}\n{again}", pytrace=True)
        return found


@pytest.fixture
def twincheck(request) -> Checks:
    """Two models in a test: `twincheck(torch_model, paddle_model, {"x": x})` (see Checks)."""
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")
    folder = request.config.getoption(_OPTION)
    from twincheck.common.system.door import joined, shown, this_python

    test = request.node.nodeid.partition("::")[2]
    command = joined(this_python(), "-m", "pytest", f"{shown(request.node.path)}::{test}")
    return Checks(name, command, Path(folder).absolute() if folder else None)


def pytest_sessionfinish(session):
    """Write one page and one bundle of what all tests have kept."""
    folder = session.config.getoption(_OPTION)
    if not folder or hasattr(session.config, "workerinput"):  # of pytest-xdist: the first does it
        return
    if not any(Path(folder).glob("pair/*/case.py")):
        return
    command = [sys.executable, "-m", "twincheck", "_live", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    told = (done.stdout if done.returncode < 2 else done.stderr).strip().splitlines()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and told:
        reporter.write_line(f"twincheck: {told[-1]}")
