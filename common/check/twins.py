"""The processes of one step: which requests each side is handed, and what became of them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from common.check.inputs import Inputs
from common.check.options import CheckOptions
from common.check.steps import Launch, Step
from common.logs.result_folder import ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar
from common.pair.pairs import Pair
from common.pair.request import RunRequest, error_file
from common.pair.twin_process import Failure, TwinProcess, run_group
from common.system.frameworks import SIDES
from common.system.shared_arrays import SharedFile
from common.transplant.operators import SMALLEST
from common.weights import states


class Twins:
    """The processes of one step; a context manager that ends them.

    A process is started once and answers the requests of all models, one after another.  It goes on
    waiting till the results are judged: the Paddle side's may be asked for a single-step run, which
    then costs no import of the framework.
    """

    def __init__(self, inputs: Inputs):
        self.inputs = inputs
        self.step: Step = inputs.step
        self.options: CheckOptions = inputs.options
        self.pythons = inputs.pythons
        self.work = inputs.work
        self.on_progress = inputs.on_progress
        self._processes: dict[tuple[str, int | None], TwinProcess] = {}  # (side, threads) -> it
        self._memory: dict[str, SharedFile] = {}  # model -> where its large states are handed over

    def __enter__(self) -> "Twins":
        return self

    def __exit__(self, error_type, *error: object) -> None:
        try:
            if error_type is None:
                self._end(SIDES)
                for process in self._processes.values():
                    process.wait()
        finally:
            for process in self._processes.values():
                process.stop()
            for shared in self._memory.values():
                shared.close()

    def _end(self, sides: Iterable[str]) -> None:
        for (side, _), process in self._processes.items():
            if side in sides:
                process.end()

    # ---- what runs ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start what the first launch needs: the frameworks are imported while inputs are read."""
        for side in self.pythons:
            if side == "paddle" or not self.options.reuse:
                if self.step.launches[0].processes == 1:
                    self._process(side)

    def run_all(self, pairs: list[Pair]) -> dict[str, Failure]:
        """Every launch for every model; returns model -> why it failed."""
        errors = self.inputs.errors
        for launch in self.step.launches:
            left = [pair for pair in pairs if pair.name not in errors]
            reference = [pair for pair in left if pair.name not in self.inputs.brought]
            if launch.side_by_side:
                paddle = self._ask("paddle", launch, left, threads=1)
                both = (launch, launch.torch_then) if launch.torch_then else (launch,)
                torch = [self._ask("torch", part, reference, threads=1) for part in both]
                for process in torch:
                    self._finish(process, reference)
                self._finish(paddle, left)
                continue
            for side, some in (("torch", reference), ("paddle", left)):
                some = [pair for pair in some if pair.name not in errors]
                if launch.processes > 1:
                    self._run_group(side, launch, some)
                elif some:
                    self._finish(self._ask(side, launch, some), some)
        self._end(["torch"])
        return errors

    def single_step(self, pair: Pair, exact: bool = False) -> str:
        """Run the Paddle side once more, each module fed with the reference's values.

        exact   compute exactly what Paddle's operators compute inexactly in float64
        Returns why that could not be done; empty where it was.
        """
        name = f"request_paddle_single_step{'_exact' if exact else ''}.json"
        return self._once_more(pair, self.work / pair.name / name, exact=exact)

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
        Returns why that could not be done; empty where it was.
        """
        ResultFolder(self.work / pair.name).take_over(folder)
        more: dict[str, object] = {"cases": tuple(cases)} if cases else {}
        if fed is None:
            more |= {"free": True, "exact": True}
        else:
            states.save_state(folder / "fed.npz", fed)
            more["feed"] = "fed.npz"
        return self._once_more(pair, folder / "request_paddle.json", **more)

    def _once_more(self, pair: Pair, path: Path, **more: object) -> str:
        """Have the waiting Paddle process answer a request for a single step, written to `path`.

        Returns why that could not be done; empty where it was.
        """
        for launch in self.step.launches:
            if launch.single_step:
                process = self._process("paddle")
                process.ask(self._request("paddle", pair, launch, single_step=True, **more), path)
                failure = process.failure()
                if failure is not None:
                    error_file(path.parent, "paddle").unlink(missing_ok=True)
                    return failure.sentence
        return ""

    def trial(self, pair: Pair, folder: Path, **more: object) -> str:
        """Run the Paddle side in a process of its own with more in its request, into `folder`.

        Returns why that could not be done; empty where it was.
        """
        for launch in self.step.launches:
            with self._started("paddle") as process:
                process.ask(
                    self._request("paddle", pair, launch, **more), folder / "request_paddle.json"
                )
                failure = process.failure()
            if failure is not None:
                return failure.sentence
        return ""

    # ---- requests and processes -----------------------------------------------------------------

    def _request(self, side: str, pair: Pair, launch: Launch, **more: object) -> RunRequest:
        inputs, run = self.inputs, self.options.run
        told: dict[str, object] = {"model": pair.model, "progress": True}
        if side == "torch" or run.transplant == SMALLEST:
            told["transplant"] = None
        if inputs.published:
            told["published"] = str(inputs.published)
        if self.step.data:
            told["data"] = str(inputs.data)
        if launch.processes == 1:  # several would write at once
            told["memory"] = self._memory_of(pair)
        if self.step.trains:
            told["checkpoints"] = str(inputs.unfinished.folder)
        return replace(run, **told | launch.request | more)

    def _memory_of(self, pair: Pair) -> str:
        """Where a model's large states are handed over: in memory, which ends with the check."""
        if pair.name not in self._memory:
            self._memory[pair.name] = SharedFile(self.work)
        return self._memory[pair.name].address

    def _path(self, side: str, pair: Pair, launch: Launch) -> Path:
        phase = launch.request.get("phase", "first")
        parts = [side, phase if phase != "first" else "", "several" if launch.processes > 1 else ""]
        return self.work / pair.name / f"request_{'_'.join(filter(None, parts))}.json"

    def _ask(self, side, launch: Launch, pairs, threads: int | None = None) -> TwinProcess | None:
        """Hand a side its requests for some models; None where there are none."""
        process = self._process(side, threads) if pairs else None
        for pair in pairs:
            process.ask(self._request(side, pair, launch), self._path(side, pair, launch))
        return process

    def _finish(self, process: TwinProcess | None, pairs: Iterable[Pair]) -> None:
        """Wait for a side's answers; note which models failed, and why."""
        for pair in pairs:
            failure = process.failure()
            if failure is not None:
                self.inputs.errors.setdefault(pair.name, failure)

    def _run_group(self, side: str, launch: Launch, pairs: list[Pair]) -> None:
        """Run several processes of a side that share each model's run."""
        if not pairs:
            return
        failures = run_group(
            self.pythons[side],
            self.step.module(side),
            {self._path(side, p, launch): self._request(side, p, launch) for p in pairs},
            self._show(side),
            self.options.run.device,
            self.work / ".launch",
        )
        for pair, failure in zip(pairs, failures, strict=True):
            if failure is not None:
                self.inputs.errors.setdefault(pair.name, failure)

    def _process(self, side: str, threads: int | None = None) -> TwinProcess:
        """The process of a side that runs, or a new one."""
        if "OMP_NUM_THREADS" in os.environ:
            threads = None  # the user has said how many
        process = self._processes.get((side, threads))
        if process is None or process.has_ended:
            process = self._processes[side, threads] = self._started(side, threads)
        return process

    def _started(self, side: str, threads: int | None = None) -> TwinProcess:
        python, module = self.pythons[side], self.step.module(side)
        return TwinProcess(python, module, self._show(side), self.options.run.device, threads)

    def _show(self, side: str):
        return lambda text: self.on_progress(f"step {self.step.number} {side}: {text}")

    # ---- what is asked afterwards ---------------------------------------------------------------

    def fresh_sides(self, pair: Pair) -> list[str]:
        """Sides whose logs of a pair were made here, not brought."""
        return [side for side in SIDES if side == "paddle" or pair.name not in self.inputs.brought]

    def elapsed_s(self, model: str) -> float:
        """What the twins of a model took, from their logs' sidecars."""
        total = 0.0
        for path in (self.work / model).glob("*.npy"):
            total += (read_sidecar(path) or Sidecar()).elapsed_s
        return total
