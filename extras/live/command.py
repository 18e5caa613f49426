"""The process that judges two live models, which twincheck.check starts.

It asks forks of that caller, one for each side and step, as a check of files asks its workers.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.check.command_line import write_page
from twincheck.common.check.options import CheckOptions
from twincheck.common.check.report_json import json_text
from twincheck.common.check.runner import run_step
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.check_all import all_steps, check_all
from twincheck.common.judge_again import judge_again
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import FIRST, RunRequest
from twincheck.common.pair.task import Describe
from twincheck.common.report import html_page, terminal
from twincheck.common.report.summary import last_line
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import load
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import reasons_json
from twincheck.common.verdict.row import Row, claim
from twincheck.common.weights.layout import Layout, LayoutError
from twincheck.common.weights.states import load_owners
from twincheck.extras.live import Kind
from twincheck.extras.live.held import state_file

ALL = (1, 3, 4)
ANSWER = "result.json"
APART = "weights.json"  # name -> how far a weight of Paddle's was from torch's, as text
WEIGHTS = "weights/"  # how keys of rows on them begin


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge what a request's file says, and write the answer beside it; returns the exit status.

    Given a folder instead: one page and one bundle of all that calls have kept there.
    """
    (path,) = sys.argv[1:] if arguments is None else arguments
    path = Path(path)
    return guarded(False, lambda: _of_all(path) if path.is_dir() else _of_one(path))


def _of_all(folder: Path) -> int:
    pairs = tuple(str(case.parent) for case in sorted(folder.glob("pair/*/case.py")))
    options = CheckOptions(models=pairs, out=folder)
    return check_all(_steps(ALL), options, None, "", judge_again)


def _of_one(path: Path) -> int:
    asked, answer = load_json(path), path.with_name(ANSWER)
    try:
        with terminal.progress() as on_progress:
            text = _judged(asked, on_progress)
    except UserError as error:
        write_text(answer, json.dumps({"error": reasons_json([str(error)])[0]}))
        return 2
    write_text(answer, text)
    return 0


def _judged(asked: Mapping, on_progress) -> str:
    folder, out = Path(asked["pair"]), Path(asked["out"])
    bring_together(folder, asked)
    options = CheckOptions(
        models=(str(folder),),
        out=out,
        allow=tuple(asked["allow"]),
        strict=asked["strict"],
        torch_python=asked["python"],
        paddle_python=asked["python"],
    )
    results = []
    with Processes() as processes:
        for step in _steps(asked["steps"]):
            results += run_step(step, options.taken_by(step.takes), on_progress, processes)
    write_page(out, results, "", Kind.TWO_LIVE_MODELS())
    line = str(last_line(results, out / html_page.FILE, says_next=False))
    document = json.loads(json_text(results, summary=line))
    document["findings"] = _with_weights_first(document["findings"], weight_rows(folder))
    return json.dumps(document)


def _steps(numbers: Sequence[int]) -> list[Step]:
    """Return these steps; the first also says what is true of the weights that the models had."""
    steps = [step for step in all_steps() if step.number in numbers]
    told = {"extra": lambda _, pair: (weight_rows(pair.folder), [])}
    return [replace(step, **told) if step.number == 1 else step for step in steps]


def weight_rows(folder: Path) -> list[Row]:
    """A row for each weight of a pair's Paddle model that was not torch's."""
    apart = load_json(folder / APART) if (folder / APART).is_file() else {}
    said = Kind.WEIGHT_OF_PADDLE_OTHER()
    return [claim(f"{WEIGHTS}{name}", float(value), 0.0, said) for name, value in apart.items()]


def _with_weights_first(findings: list[dict], rows: Sequence[Row]) -> list[dict]:
    """The findings, those on weights as one: each of them says the same of another weight."""
    keys = {row.key for row in rows}
    of_weights = [one for one in findings if one["key"] in keys]
    others = [one for one in findings if one["key"] not in keys]
    if not of_weights:
        return others
    said = {"key": rows[0].key.removeprefix(WEIGHTS), "gap": max(row.gap for row in rows)}
    sentence = Kind.WEIGHT_NOT_TORCHS(**said)
    if rows[1:]:
        sentence = Kind.WEIGHTS_NOT_TORCHS(**said, count=len(rows))
    further = [{"step": 1, "key": row.key} for row in rows[1:]]
    told = {"sentence": sentence, "reasons": reasons_json([sentence])}
    return [of_weights[0] | told | {"further": further, "commands": []}, *others]


def bring_together(folder: Path, asked: Mapping) -> None:
    """Write into case.py how Paddle's weights are named, and beside it which are not torch's.

    Raises UserError where a model fails, or weights have no counterpart.
    """
    work = folder / "described"
    owners = described(folder, asked["python"], work)
    rename, convert = {}, None
    try:
        layout = Layout(owners["torch"], owners["paddle"])
    except LayoutError:
        found = load("twincheck.proposals", "names")(folder, dict.fromkeys(SIDES, asked["python"]))
        rename, text = found.rename, found.convert
        with open(folder / "case.py", "a", encoding="utf-8") as case:
            case.write(f"\nRENAME = {rename!r}\n\n{text}")
        names: dict[str, object] = {"np": np}
        exec(text, names)  # what was proposed just now
        convert = names.get("convert")
        layout = Layout(owners["torch"], owners["paddle"], rename, convert)
    (folder / APART).unlink(missing_ok=True)
    if asked["carry"] == "torch":
        return
    states = {side: _state(folder, side) for side in SIDES}
    wanted = layout.to_paddle(states["torch"]).items()
    apart = {key: _apart(values, states["paddle"][key]) for key, values in wanted}
    write_json(folder / APART, {key: str(value) for key, value in apart.items() if value})


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
    with Processes() as processes:
        sides = {side: processes.of(side, side, python, FIRST.format(side)) for side in SIDES}
        for side, process in sides.items():
            process.ask(RunRequest(pair.model, task=Describe()), work / side / "request.json")
        for process in sides.values():
            process.finish()
    return {side: load_owners(ResultFolder(work / side).owners()) for side in SIDES}
