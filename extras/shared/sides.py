"""Both sides asked for one model alone, as often as needed: what --agree and loss logs go by.

A check of a step asks for all its models at once (common/check/workers.py).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.steps import Step
from twincheck.common.logs.key import Key
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.pair.case_hooks import data_preset
from twincheck.common.pair.pairs import (
    TRAIN,
    Case,
    Pair,
    is_checkpoint,
    load_pairs,
    python_for,
)
from twincheck.common.pair.request import FIRST, RunRequest
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.system.checkout import for_logs
from twincheck.common.system.errors import UserError
from twincheck.common.system.folders import remove_abandoned, working_folder
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.run_kind import RunKind
from twincheck.common.weights import checkpoint
from twincheck.extras.shared.one_case import data_case


@dataclass(frozen=True)
class Asked:
    """One model's run made ready: its checkpoint is read, and a folder is there to work in."""

    pair: Pair
    run: RunRequest
    case: Case  # the preset that steps 2 and 5 run
    work: Path
    pythons: dict[str, str]
    notes: list[str]

    @contextmanager
    def sides(self, module: str, stem: str) -> Iterator["Sides"]:
        """Both sides' processes of a script while it lasts.

        module  of each side's script, `{}` in place of the side; without, one for both
        stem    of its logs
        """
        with ExitStack() as stack:
            sides = Sides(self.pair, self.run, self.work / self.pair.name, stem)
            threads = max(1, len(os.sched_getaffinity(0)) // 2)
            for side in SIDES:
                process = WorkerProcess(
                    self.pythons[side],
                    FIRST.format(side),
                    partial(lambda side, told: sides.told(side, told.what), side),
                    self.run.device,
                    None if self.run.device == "gpu" else threads,
                )
                process.module = module.format(side)
                sides.processes[side] = stack.enter_context(process)
            yield sides


@contextmanager
def asked(pair: Pair, options: CheckOptions, base: Path, **more: object) -> Iterator[Asked]:
    """Give what both sides of a model are asked for, in a working folder of `base` meanwhile.

    more    fields of the request
    """
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    with working_folder(base) as work:
        pythons = {side: python_for(side, options.pythons.get(side), [pair]) for side in SIDES}
        more |= {"model": pair.model, "progress": True, "states": str(work / ".states")}
        run = replace(options.run, **more)
        preset, notes = data_preset(pair, run.preset), []
        if is_checkpoint(run.weights):
            told = run.weights, preset, run.mode == TRAIN, pythons, work
            pair, contents = checkpoint.prepare(pair, *told)
            notes += contents.notes
            run = replace(run, published=str(work / checkpoint.FOLDER))
        yield Asked(pair, run, data_case(pair, run), work, pythons, notes)


def only_pair(options: CheckOptions, sentence: str) -> Pair:
    """The one model that is named; raises UserError with the sentence where it is not one."""
    pairs = load_pairs(options.models)
    if len(pairs) != 1:
        raise UserError(sentence)
    return pairs[0]


def folder_of(options: CheckOptions, name: str) -> Path:
    """The folder in which a command of this name leaves its result, beside the steps' logs."""
    return (options.out.absolute() if options.out else for_logs() / "log") / name


def case_of(origin: str, pair: Pair, run: RunRequest) -> tuple[str, ...]:
    """The case that a row is of, as --case names it; none where the preset has one alone."""
    names = [case.name for case in pair.cases(run.preset, run.weights, run.modes)]
    found = next((name for name in names if name and origin.startswith(f"{name}/")), "")
    return (found,) if found else ()


def function_of(step: Step, origin: str) -> tuple[str, str]:
    """Return the step's function that computes an origin on both sides: its module, its name."""
    alone = step.number == 4 and not Key.parse(origin).is_step  # without the optimizers' steps
    return f"twincheck.{step.name}.{step.script}", "gradients" if alone else step.script


def answered(process: WorkerProcess, run: RunRequest, path: Path) -> None:
    """Ask a process, and wait for its answer; raises UserError where it fails."""
    process.ask(run, path)
    process.finish(path)


@dataclass
class Sides:
    """Both sides' processes of a script, and what they are asked."""

    pair: Pair
    run: RunRequest
    folder: Path  # where their logs go, and what the script reads is
    stem: str  # of the logs
    processes: dict[str, WorkerProcess] = field(default_factory=dict)  # by their sides
    told: Callable[[str, str], None] = lambda side, what: None  # called with what a side runs
    exact: bool = True  # both sides have a float64 run

    def answer(self, dtype: str) -> None:
        """Have both sides run in a precision; raises UserError where one fails.

        In float32 both compute at once, where they do not share a GPU.
        """
        run = replace(self.run, only_float32=dtype == "float32")
        at_once = dtype == "float32" and run.device == "cpu"
        for side in SIDES:
            behind = side == "paddle" and dtype == "float64"
            if behind and not self.has_log("torch", RunKind.FLOAT64):
                break
            own = run if side == "paddle" else replace(run, transplant=None)
            name = f"request_{side}{'' if dtype == 'float32' else '_fp64'}.json"
            self.processes[side].ask(own, self.folder / name)
            if not at_once:
                self._wait([side])
        if at_once:
            self._wait(SIDES)
        if dtype == "float64":
            self.exact = all(self.has_log(side, RunKind.FLOAT64) for side in SIDES)

    def _wait(self, sides: Sequence[str]) -> None:
        for side in sides:
            self.processes[side].finish()

    def has_log(self, side: str, run: str) -> bool:
        """Return whether a side has run in a precision at all."""
        return ResultFolder(self.folder).log(self.stem, side, run).is_file()

    def sidecar(self, side: str) -> Sidecar:
        """Return the sidecar of a side's last float32 log."""
        return sidecar_of(ResultFolder(self.folder).log(self.stem, side, RunKind.PLAIN))
