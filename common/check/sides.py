"""Both sides asked for one model alone, as often as needed: what --agree and loss logs go by.

A check of a step asks for all its models at once (common/check/workers.py).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from common.check.options import CheckOptions
from common.logs.result_folder import FLOAT32, FLOAT64, ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar
from common.pair.case_hooks import data_case, data_preset
from common.pair.pairs import TRAIN, Case, Checkpoint, Pair
from common.pair.request import RunRequest
from common.pair.worker_process import WorkerProcess
from common.system.errors import UserError
from common.system.folders import remove_abandoned, working_folder
from common.system.frameworks import SIDES
from common.system.interpreters import interpreter
from common.system.shared_arrays import SharedFile
from common.weights import checkpoint


@dataclass(frozen=True)
class Asked:
    """One model's run made ready: its checkpoint is read, and a folder is there to work in."""

    pair: Pair
    run: RunRequest
    case: Case  # the preset that steps 2 and 5 run
    work: Path
    pythons: dict[str, str]
    notes: list[str]

    def sides(self, module: str, stem: str) -> "Sides":
        """Both sides' processes of a script (Sides says how it is named)."""
        return Sides(module, stem, self.pair, self.run, self.work / self.pair.name, self.pythons)


@contextmanager
def asked(pair: Pair, options: CheckOptions, base: Path, **more: object) -> Iterator[Asked]:
    """What both sides of a model are asked for, in a working folder of `base` while it lasts.

    more    fields of the request
    """
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    with working_folder(base) as work, SharedFile(work) as memory:
        pythons = {side: interpreter(side, options.pythons.get(side)) for side in SIDES}
        run = replace(options.run, model=pair.model, progress=True, memory=memory.address, **more)
        preset, notes = data_preset(pair, run.preset), []
        if isinstance(run.start, Checkpoint):
            told = run.weights, preset, run.mode == TRAIN, pythons, work
            pair, contents = checkpoint.prepare(pair, *told)
            notes += contents.notes
            run = replace(run, published=str(work / checkpoint.FOLDER))
        yield Asked(pair, run, data_case(pair, run), work, pythons, notes)


class Sides:
    """Both sides' processes of a script, and what they are asked; a context manager.

    module  of each side's script, `{}` in place of the side: step2_metric.{}.agree
    stem    of its logs
    folder  where they go, and what the script reads is
    """

    def __init__(
        self,
        module: str,
        stem: str,
        pair: Pair,
        run: RunRequest,
        folder: Path,
        pythons: dict[str, str],
    ):
        self.stem, self.pair, self.run, self.folder = stem, pair, run, folder
        self.on_batch: Callable[[str], None] = lambda side: None
        gpu, cores = run.device == "gpu", len(os.sched_getaffinity(0))
        threads = None if gpu or "OMP_NUM_THREADS" in os.environ else max(1, cores // 2)
        self._processes = {
            side: WorkerProcess(
                pythons[side],
                module.format(side),
                lambda text, side=side: self._show(side, text),
                run.device,
                threads,
            )
            for side in SIDES
        }
        self.exact = True  # both sides have a float64 run

    def __enter__(self) -> "Sides":
        return self

    def __exit__(self, error_type, *error: object) -> None:
        for process in self._processes.values():
            process.__exit__(error_type, *error)

    def _show(self, side: str, text: str) -> None:
        if " batch " in text:
            self.on_batch(side)

    def answer(self, dtype: str, meanwhile: Callable[[], object] = lambda: None) -> object:
        """Have both sides run in a precision; raises UserError where one fails.

        meanwhile   is called while they do; what it returns is returned
        In float32 both compute at once, where they do not share a GPU.
        """
        run = replace(self.run, only_float32=dtype == "float32")
        at_once = dtype == "float32" and run.device == "cpu"
        failures = []
        for side in SIDES:
            if side == "paddle" and dtype == "float64" and not self.has_log("torch", FLOAT64):
                break
            own = run if side == "paddle" else replace(run, transplant=None)
            name = f"request_{side}{'' if dtype == 'float32' else '_fp64'}.json"
            self._processes[side].ask(own, self.folder / name)
            if not at_once:
                failures.append(self._processes[side].failure())
                self._raise(failures)
        made = meanwhile()
        failures += [self._processes[side].failure() for side in SIDES if at_once]
        self._raise(failures)
        if dtype == "float64":
            self.exact = all(self.has_log(side, FLOAT64) for side in SIDES)
        return made

    def has_log(self, side: str, run: str) -> bool:
        """Whether a side has run in a precision at all."""
        return ResultFolder(self.folder).log(self.stem, side, run).is_file()

    def sidecar(self, side: str) -> Sidecar:
        """What a side's last float32 log says of itself."""
        return read_sidecar(ResultFolder(self.folder).log(self.stem, side, FLOAT32)) or Sidecar()

    @staticmethod
    def _raise(failures) -> None:
        for failure in filter(None, failures):
            raise UserError(failure.sentence)
