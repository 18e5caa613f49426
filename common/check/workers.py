"""The processes of one step: which requests each side is handed, and what became of them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twincheck.common.check.inputs import Inputs
from twincheck.common.check.options import CheckOptions
from twincheck.common.check.steps import Launch, Step
from twincheck.common.logs.reference import unlike
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import read_sidecar, sidecar_of, sidecar_path
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.request import FIRST, RunRequest, error_file
from twincheck.common.pair.task import (
    Again,
    ForcedAlike,
    Noise,
    Task,
    TeacherForced,
    Traced,
    Whole,
    label,
)
from twincheck.common.pair.worker_process import Failure, WorkerProcess, run_group
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES, is_graph
from twincheck.common.system.half import HALF
from twincheck.common.system.processes import Told
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.transplant.table import SMALLEST
from twincheck.common.weights import states


class Owed(NamedTuple):
    """An answer that a side's process owes: its request for a model was written to `path`."""

    pair: Pair
    process: WorkerProcess
    path: Path


class Processes:
    """The sides' processes of a check; a context manager that ends them.

    A process is started once and answers the requests of all models and steps, one after another,
    so that a framework is imported once.
    """

    def __init__(self):
        self._waiting: dict[tuple, WorkerProcess] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, error_type, *error: object) -> None:
        if error_type is None:
            self.end(*SIDES)  # all at once: the stack waits for one after another
        self._stack.__exit__(error_type, *error)

    def stop(self) -> None:
        """End every process at once, whatever it is at; who asks later gets new ones."""
        for process in self._waiting.values():
            process.stop()
        self._waiting.clear()

    def end(self, *sides: str) -> None:
        """Tell the processes of these sides that nothing more is asked."""
        for (side, *_), process in self._waiting.items():
            if side in sides:
                process.end()

    def of(
        self,
        side: str,
        framework: str,
        python: str,
        module: str,
        device: str = "cpu",
        threads: int | None = None,
        on_progress: Callable[[Told], None] = lambda told: None,
    ) -> WorkerProcess:
        """The process of a side that runs a module's requests, or a new one."""
        threads = None if "OMP_NUM_THREADS" in os.environ else threads  # the user's count
        key = side, python, framework, device, threads
        process = self._waiting.get(key)
        if process is None or process.was_told_to_end:
            first = FIRST.format(framework)
            process = WorkerProcess(python, first, on_progress, device, threads, side)
            self._waiting[key] = self._stack.enter_context(process)
        process.module, process.on_progress = module, on_progress
        return process


class Workers:
    """Ask the sides' processes for all that one step needs; a context manager.

    A process goes on waiting till the results are judged: Paddle's may be asked for a
    teacher-forced run, torch's for the noise of what it computed.

    threads   of each process; None: as many as it likes
    """

    def __init__(self, inputs: Inputs, processes: Processes, threads: int | None = None):
        self.inputs, self.processes, self.threads = inputs, processes, threads
        self.step: Step = inputs.step
        self.options: CheckOptions = inputs.options
        self.pythons = inputs.pythons
        self.work = inputs.work
        self.on_progress = inputs.on_progress
        self._done: dict[tuple[str, Task], set[tuple[str, str]]] = {}  # model, what -> passes
        self.stepping: dict[str, tuple[str, ...]] = {}  # model -> cases of further runs' steps
        self._more: dict[str, dict[str, object]] = {}  # model -> what its requests have beside
        self._models = 1
        self._shares: dict[tuple[str, str], float] = {}  # side, model -> how much is done

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, error_type, *error: object) -> None:
        if error_type is not None:  # the folder that they write into is about to go
            self.processes.stop()

    def start(self) -> None:
        """Start what the first launch needs: the frameworks are imported while inputs are read."""
        for side in self.pythons:
            if side == "paddle" or not self.options.reuse:
                if self.step.launches[0].processes == 1:
                    self._process(side)

    def finished(self, pairs: list[Pair]) -> Iterator[Pair]:
        """Run every launch for every model; gives each as soon as both sides are done with it.

        Why one failed is among the inputs' errors.  The others may still run: the sides work at
        different models at once.
        """
        errors, self._models = self.inputs.errors, len(pairs)
        half = self.options.run.dtype in HALF
        self._shares |= {("torch", name): 1.0 for name in self.inputs.brought}
        owed: list[Owed] = []
        for launch in self.step.launches:
            self._collect(owed)
            owed = self._hand_out(launch, [pair for pair in pairs if pair.name not in errors])
        if self._is_scarce and not half:
            self.processes.end("torch")
        for pair in pairs:
            self._collect(one for one in owed if one.pair.name == pair.name)
            if half and pair.name not in errors:
                self._feed_alike(pair)
            yield pair

    def _hand_out(self, launch: Launch, pairs: list[Pair]) -> list[Owed]:
        """Hand the sides a launch's requests; what they still owe then.

        The Paddle side goes on with what torch's run of a model leaves: it has a model's request
        once that is there, and works at it while torch works at the next.
        """
        errors = self.inputs.errors
        reference = [pair for pair in pairs if pair.name not in self.inputs.brought]
        if launch.processes > 1:
            for side, some in (("torch", reference), ("paddle", pairs)):
                if some := [pair for pair in some if pair.name not in errors]:
                    self._run_group(side, launch, some)
            return []
        threads = 1 if launch.side_by_side else self.threads

        def asked(side: str, some: list[Pair]) -> list[Owed]:
            parts = ((pair, part) for pair in some for part in self._parts(side, launch, pair))
            return [self._ask(side, part, pair, threads) for pair, part in parts]

        torch = asked("torch", reference)
        if launch.side_by_side:
            return torch + asked("paddle", pairs)
        if self._is_scarce:
            self._collect(torch)
        paddle = []
        for pair in pairs:
            self._collect(one for one in torch if one.pair.name == pair.name)
            if pair.name not in errors:
                paddle += asked("paddle", [pair])
        return paddle

    @property
    def _is_scarce(self) -> bool:
        """True where memory may not be enough for both sides at once."""
        return self.options.run.device != "cpu"

    def _parts(self, side: str, launch: Launch, pair: Pair) -> list[Launch]:
        """Return the parts of a launch that a side's process runs for a model."""
        spares, folder = self.step.spares, self.work / pair.name
        return [
            part
            for part in launch.parts
            if spares is None or not spares(part, folder, pair, self._request(side, pair, part))
        ]

    def go_on(self, pair: Pair, more: Mapping[str, object]) -> Failure | None:
        """Have both sides do more: a phase, or so many seeds; why that could not be, or None."""
        if "torch" not in self.pythons:
            return Failure(Kind.TORCH_LOGS_BROUGHT(), "")
        launches = (Launch(more),)
        if "phase" not in more:
            self._more[pair.name], launches = dict(more), self.step.launches
            # Of fewer seeds; made again where they are needed.
            self._forget(pair, lambda name: name.teacher_forced or name.exact)
        self.inputs.brought.discard(pair.name)
        for launch in launches:
            self._collect(self._hand_out(launch, [pair]))
            if failure := self.inputs.errors.pop(pair.name, None):
                _said(failure)
                return failure
        return None

    def _collect(self, owed: Iterable[Owed]) -> None:
        """Wait for answers; note which models failed, and why."""
        for pair, process, path in owed:
            if failure := process.failure(path):
                self.inputs.errors.setdefault(pair.name, failure)
            self._shares[process.side, pair.name] = 1.0

    def _feed_alike(self, pair: Pair) -> None:
        """Have torch's modules fed what Paddle's can be fed, where that is less than was fed."""
        files, launches = ResultFolder(self.work / pair.name), []
        for launch, stem in zip(self.step.launches, self.step.judged, strict=False):
            former = read_sidecar(files.log(stem, "torch", RunKind.HALF_STEP64))
            if former is not None and former.not_forced != unlike(files, stem):
                launches.append(launch)
        if launches and "torch" in self.pythons:  # else the logs are somebody else's
            failed = self._further("torch", pair, ForcedAlike(), launches)
            if failed:
                self.inputs.notes[pair.name].append(Kind.TORCH_NOT_FED_ALIKE(why=failed))

    # Each of the following returns why it could not be done; empty where it was.

    def teacher_forced(self, pair: Pair, exact: bool = False) -> str:
        """Run the Paddle side once more, each module fed with the reference's values.

        exact   compute exactly what Paddle's operators compute inexactly in float64
        """
        if is_graph(self.options.run.candidate):
            return Kind.GRAPH_NOT_FED()
        task = TeacherForced(exact=exact, stepping=self.stepping.get(pair.name, ()))
        return self._make_whole(pair) or self._further("paddle", pair, task)

    def _make_whole(self, pair: Pair) -> str:
        """Have the torch side log whole what its float64 logs hold as sums; once."""
        files, launches = ResultFolder(self.work / pair.name), []
        for launch, stem in zip(self.step.launches, self.step.judged, strict=False):
            log = files.log(stem, "torch", RunKind.FLOAT64)
            if sidecar_of(log).sums and not files.log(stem, "torch", RunKind.WHOLE).is_file():
                if "torch" not in self.pythons:  # somebody else's logs
                    return Kind.SUMS_NOT_FED(log=log.name)
                launches.append(launch)
        return self._further("torch", pair, Whole(), launches)

    def look_closer(
        self, task: Noise | Again, pair: Pair, passes: Iterable[tuple[str, str]]
    ) -> str | None:
        """Have torch measure the noise of what it logged, or Paddle repeat its runs.

        passes  cases and set-ups of the optimizer, as a judgement asks for them
        Returns None where nothing was left to do.
        """
        side, passes = "torch" if task == Noise() else "paddle", set(passes)
        done = self._done.setdefault((pair.name, task), set())
        if passes <= done:
            task = replace(task, further=True)
            done = self._done.setdefault((pair.name, task), set())
        asked = passes - done
        if not (asked and any(launch.teacher_forced for launch in self.step.launches)):
            return None
        done |= asked
        if side == "torch" and self.options.run.framework(side) != "torch":
            return Kind.NOISE_OF_TORCH_ALONE()
        if side not in self.pythons:
            return Kind.TORCH_RUNS_NO_MORE()
        cases, setups = (
            tuple(sorted(set(names) - {""}))
            for names in zip(*(asked if side == "torch" else done), strict=True)
        )
        return self._further(side, pair, replace(task, setups=setups), cases=cases)

    def trace(self, pair: Pair, stem: str, case: str, sites: Sequence[str]) -> str:
        """Have both sides write their calls of a case, for the code of some modules."""
        at = self.step.judged.index(stem)
        launches = self.step.launches[at : at + 1]
        failed, more = "", {"cases": (case,)} if case else {}
        for side in SIDES:
            failed = failed or self._further(side, pair, Traced(tuple(sites)), launches, **more)
        return failed

    def forget_whole(self, pair: Pair) -> None:
        """Remove what was logged whole for teacher-forced runs."""
        self._forget(pair, lambda name: name.run == RunKind.WHOLE)
        (self.work / pair.name / "request_torch_whole.json").unlink(missing_ok=True)

    def _forget(self, pair: Pair, which: Callable[[LogName], bool]) -> None:
        for path, name in list(ResultFolder(self.work / pair.name).logs()):
            if which(name):
                path.unlink()
                sidecar_path(path).unlink()

    def feed(
        self,
        pair: Pair,
        folder: Path,
        fed: Mapping[str, np.ndarray] | None = None,
        cases: Sequence[str] = (),
    ) -> str:
        """Run the Paddle side once more, into `folder`, fed with some values alone.

        fed    key -> the value; None: nothing, and Paddle's inexact operators computed exactly
        cases  those to run; none means those of the check
        """
        ResultFolder(self.work / pair.name).take_over(folder)
        task = TeacherForced(free=True, exact=True)
        if fed is not None:
            task = TeacherForced(feed="fed.npz")
            states.save_state(folder / task.feed, fed)
        task = replace(task, stepping=self.stepping.get(pair.name, ()))
        more = {"cases": tuple(cases)} if cases else {}
        return self._further("paddle", pair, task, folder=folder, **more)

    def _further(
        self,
        side: str,
        pair: Pair,
        task: Task,
        launches: Sequence[Launch] | None = None,
        folder: Path | None = None,
        **more: object,
    ) -> str:
        """Have the waiting process of a side do a task.

        launches  by default those whose differences can be judged locally
        folder    for the request and what is made; by default the model's
        more      of the request
        """
        path = (folder or self.work / pair.name) / f"request_{side}_{label(task)}.json"
        if launches is None:
            launches = [launch for launch in self.step.launches if launch.teacher_forced]
        for launch in launches:
            process = self._process(side)
            process.ask(self._request(side, pair, launch, task=task, **more), path)
            if failure := process.failure(path):  # behind what it may owe of other models
                error_file(path.parent, side).unlink(missing_ok=True)
                return _said(failure)
        return ""

    def trial(self, pair: Pair, folder: Path, **more: object) -> str:
        """Run the Paddle side in a process of its own with more in its request, into `folder`."""
        for launch in self.step.launches:
            request = self._request("paddle", pair, launch, **more)
            with Processes() as own:
                process = own.of("paddle", *self._how("paddle"), on_progress=self._show("paddle"))
                process.ask(request, folder / "request_paddle.json")
                if failure := process.failure():
                    return _said(failure)
        return ""

    def _request(self, side: str, pair: Pair, launch: Launch, **more: object) -> RunRequest:
        inputs, run = self.inputs, self.options.run
        told: dict[str, object] = {"model": pair.model, "progress": True}
        told |= self._more.get(pair.name, {})
        if side == "torch" or run.transplant == SMALLEST:
            told["transplant"] = None
        if inputs.published:
            told["published"] = str(inputs.published)
        if self.step.data:
            told["data"] = str(inputs.data)
        if launch.processes == 1:  # several would write at once
            told["states"] = str(self.work / ".states" / pair.name)
        if self.step.trains:
            told["checkpoints"] = str(inputs.unfinished.folder)
        return replace(run, **told | launch.request | more)

    def _path(self, side: str, pair: Pair, launch: Launch) -> Path:
        phase = launch.request.get("phase", "first")
        parts = [side, phase if phase != "first" else "", "several" if launch.processes > 1 else ""]
        return self.work / pair.name / f"request_{'_'.join(filter(None, parts))}.json"

    def _ask(self, side: str, launch: Launch, pair: Pair, threads: int | None = None) -> Owed:
        """Hand a side its request for a model."""
        process, path = self._process(side, threads), self._path(side, pair, launch)
        process.ask(self._request(side, pair, launch), path)
        return Owed(pair, process, path)

    def _run_group(self, side: str, launch: Launch, pairs: list[Pair]) -> None:
        """Run several processes of a side that share each model's runs; one that fails ends all."""
        requests = {self._path(side, p, launch): self._request(side, p, launch) for p in pairs}
        failures = run_group(
            *(self.pythons[side], self._module(side), requests, self._show(side)),
            *(self.work / ".launch", side),
        )
        for pair, failure in zip(pairs, failures, strict=True):
            if failure is not None:
                self.inputs.errors.setdefault(pair.name, failure)

    def _process(self, side: str, threads: int | None = None) -> WorkerProcess:
        """The process of a side that runs, or a new one."""
        return self.processes.of(side, *self._how(side), threads or self.threads, self._show(side))

    def _how(self, side: str) -> tuple[str, str, str, str]:
        """Framework, Python, module and device of a side."""
        run = self.options.run
        return run.framework(side), self.pythons[side], self._module(side), run.device

    def _module(self, side: str) -> str:
        """Return the module that `python -m` runs for a side: the script of its framework."""
        return self.step.module(self.options.run.framework(side))

    def _show(self, side: str) -> Callable[[Told], None]:
        """Return what hands a side's progress on, with the share of the step that is done.

        The runs of both sides and of all models count alike; what is looked at once more is left
        out, since nobody knows before how much that will be.
        """

        def show(told: Told) -> None:
            share = None
            if told.share is not None:
                self._shares[side, told.model] = told.share
                share = sum(self._shares.values()) / (len(self.pythons) * self._models)
            at_work = Kind.SIDE_AT_WORK(step=self.step.number, side=side, what=str(told))
            self.on_progress(at_work, share)

        return show

    def elapsed_s(self, model: str) -> float:
        """Return the seconds that a model's workers took, from their logs' sidecars."""
        logs = (self.work / model).glob("*.npy")
        return sum(sidecar_of(path).elapsed_s for path in logs)


def _said(failure: Failure) -> str:
    """Return why a further run could not be done; raises UserError where the workbench failed."""
    if failure.ours:
        raise UserError(failure.sentence)
    return failure.sentence
