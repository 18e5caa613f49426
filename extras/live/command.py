"""The process that judges two live models, which twincheck.check starts.

It asks forks of that caller, one for each side and step, as a check of files asks its workers.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.check.command_line import write_page
from twincheck.common.check.guard import guarded
from twincheck.common.check.options import CheckOptions
from twincheck.common.check.report_json import json_text
from twincheck.common.check.runner import run_step
from twincheck.common.check.steps import Step
from twincheck.common.check_all import all_steps
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.task import Describe
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal
from twincheck.common.report.summary import last_line
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.row import Row, claim
from twincheck.common.weights.layout import Layout, LayoutError
from twincheck.common.weights.states import load_owners
from twincheck.extras.live.held import state_file
from twincheck.extras.new_pair.propose import of_pair

ANSWER = "result.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge what a request's file says, and write the answer beside it; returns the exit status."""
    (path,) = sys.argv[1:] if arguments is None else arguments
    path = Path(path)
    return guarded(False, lambda: _main(path, json.loads(path.read_text(encoding="utf-8"))))


def _main(path: Path, asked: Mapping) -> int:
    answer = path.with_name(ANSWER)
    try:
        with terminal.progress() as on_progress:
            text = _judged(asked, on_progress)
    except UserError as error:
        write_text(answer, json.dumps({"error": str(error)}))
        return 2
    write_text(answer, text)
    return 0


def _judged(asked: Mapping, on_progress) -> str:
    folder, out = Path(asked["pair"]), Path(asked["out"])
    rows = bring_together(folder, asked)
    options = CheckOptions(
        models=(str(folder),),
        out=out,
        allow=tuple(asked["allow"]),
        strict=asked["strict"],
        torch_python=asked["python"],
        paddle_python=asked["python"],
    )
    results = []
    for step in all_steps():
        if step.number in asked["steps"]:
            step = _with_rows(step, rows) if step.number == 1 else step
            results += run_step(step, options.taken_by(step.takes), on_progress)
    write_page(out, results, ["twincheck.check"], "two live models")
    return json_text(results, summary=str(last_line(results, out / "report.html")))


def _with_rows(step: Step, rows: list[Row]) -> Step:
    """Step 1, which also says of the weights that the models came with what is true of them."""
    return replace(step, extra=lambda folder, pair: (rows, [])) if rows else step


def bring_together(folder: Path, asked: Mapping) -> list[Row]:
    """Write into case.py how Paddle's weights are named; rows on those that are not torch's.

    Raises UserError where a model fails, or weights have no counterpart.
    """
    work = folder / "described"
    owners = described(folder, asked["python"], work)
    rename, convert = {}, None
    try:
        layout = Layout(owners["torch"], owners["paddle"])
    except LayoutError:
        found = of_pair(folder, dict.fromkeys(SIDES, asked["python"]))
        rename, text = found.rename, found.convert
        with open(folder / "case.py", "a", encoding="utf-8") as case:
            case.write(f"\nRENAME = {rename!r}\n\n{text}")
        names: dict[str, object] = {"np": np}
        exec(text, names)  # what was proposed just now
        convert = names.get("convert")
        layout = Layout(owners["torch"], owners["paddle"], rename, convert)
    if asked["carry"] == "torch":
        return []
    states = {side: _state(folder, side) for side in SIDES}
    return [
        claim(f"weights/{key}", apart, 0.0, "the Paddle model came with other weights than torch's")
        for key, values in layout.to_paddle(states["torch"]).items()
        if (apart := _apart(values, states["paddle"][key]))
    ]


def _state(folder: Path, side: str) -> dict[str, np.ndarray]:
    with np.load(state_file(folder, side)) as state:
        return dict(state)


def _apart(torch: np.ndarray, paddle: np.ndarray) -> float:
    """The largest difference, as float32 has both; infinite where it is none."""
    torch, paddle = torch.astype(np.float32), paddle.astype(np.float32)
    if np.array_equal(torch, paddle, equal_nan=True):
        return 0.0
    apart = float(np.abs(torch.astype(np.float64) - paddle).max())
    return apart if np.isfinite(apart) else float("inf")


def described(folder: Path, python: str, work: Path) -> dict[str, dict]:
    """Side -> key -> Owner of its model; both write the weights that they came with, too."""
    pair = load_pair(str(folder))
    with ExitStack() as stack:
        processes = {}
        for side in SIDES:
            process = WorkerProcess(python, f"twincheck.step1_forward.{side}.forward")
            processes[side] = stack.enter_context(process)
            process.ask(RunRequest(pair.model, task=Describe()), work / side / "request.json")
        for process in processes.values():
            failure = process.failure()
            if failure is not None:
                raise UserError(failure.sentence)
    return {side: load_owners(ResultFolder(work / side).owners()) for side in SIDES}
