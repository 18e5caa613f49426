"""Make torch's logs of a pair once, for checks where no torch is.

    twincheck reference DIR [--out DIR/reference] [--torch-python PATH]

Runs the torch side alone, of step 1, and of steps 3 and 4 where the pair has a loss.  The logs,
each with its hash in its sidecar, and the weights go into DIR/reference.  A check takes them with
--reference DIR/reference and runs Paddle alone; so does the fixture `twincheck` of pytest.

Exit status: 0 made, 2 not.
"""

from collections.abc import Sequence
from pathlib import Path

from twincheck.common.check.options import Parser
from twincheck.common.check.steps import Step
from twincheck.common.check_all import all_steps
from twincheck.common.pair.pairs import Pair, load_pair, python_for
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal
from twincheck.common.system.door import shown, to_type
from twincheck.common.system.folders import put_in_place, working_folder
from twincheck.common.system.program import guarded
from twincheck.extras.live import Kind

STEPS = (1, 3, 4)  # those that take the pair's own inputs


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "reference")
    parser.add_argument("pair", metavar="DIR", help=Kind.OPTION_PAIR())
    parser.add_argument("--out", type=Path, metavar="DIR", help=Kind.OPTION_OUT())
    given = parser.take("torch-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _made(given))


def _made(given) -> int:
    pair = load_pair(given.pair)
    target = (given.out or pair.folder / "reference").absolute()
    python = python_for("torch", given.torch_python, [pair])
    steps = [step for step in all_steps() if step.number in STEPS and not step.why_not(pair)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(target.parent) as work:
        with terminal.progress() as on_progress:
            for step in steps:
                _run(step, pair, python, work / "made", on_progress)
        put_in_place(work / "made", target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    said = {"steps": [str(step.number) for step in steps], "megabytes": size / 1e6}
    terminal.say(Kind.REFERENCE_MADE(**said, folder=shown(target)))
    terminal.say(f"  {to_type('step1', given.pair, '--reference', target)}")
    return 0


def _run(step: Step, pair: Pair, python: str, out: Path, on_progress) -> None:
    """The torch side's runs of one step; raises UserError where one fails."""
    folder = out / step.name / pair.name
    with WorkerProcess(python, step.module("torch"), on_progress) as process:
        for number, launch in enumerate(step.launches):
            path = folder / f"request_torch_{number}.json"
            request = RunRequest(pair.model, keep="all", progress=True, **launch.request)
            process.ask(request, path)
            process.finish()
            path.unlink()
