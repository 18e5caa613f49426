"""Where the checkpoints of unfinished trainings are kept: beside the results, a folder a model.

    step5_train/log/.checkpoints/MODEL            of a training that was stopped: --resume
    step5_train/log/.checkpoints/MODEL.previous   what a training without --resume set aside

A check holds its models' folders locked; another one at the same time keeps its checkpoints in its
own working folder, and cannot be resumed.
"""

import os
import shutil
from pathlib import Path

from twincheck.common.pair.pairs import Pair
from twincheck.common.system.folders import lock_folder
from twincheck.common.system.reasons import Kind
from twincheck.common.system.signals import put_off

_PREVIOUS = ".previous"


class Unfinished:
    """The checkpoint folders of one check; a context manager that lets them go at its end."""

    def __init__(self, base: Path, work: Path, resume: bool):
        """`base` is where results are, `work` this check's own folder."""
        self.folder = work / ".checkpoints"  # what the workers are given: MODEL/SIDE-PHASE-SEED
        self._kept = base / ".checkpoints"
        self._resume = resume
        self._locks: dict[str, int] = {}

    def __enter__(self) -> "Unfinished":
        return self

    def __exit__(self, *error: object) -> None:
        for lock in self._locks.values():
            os.close(lock)

    def claim(self, pair: Pair) -> list[str]:
        """Take a model's folder; returns notes on what is in it."""
        self.folder.mkdir(exist_ok=True)
        kept = self._kept / pair.name
        kept.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(kept)
        if lock is None:
            (self.folder / pair.name).mkdir()
            return [Kind.CHECKPOINTS_IN_USE()]
        self._locks[pair.name] = lock
        notes = []
        begun = any(kept.glob("*/last.*"))
        if begun and not self._resume:
            aside = kept.with_name(pair.name + _PREVIOUS)
            with put_off():
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir()
                for path in kept.iterdir():
                    os.replace(path, aside / path.name)
            notes.append(Kind.CHECKPOINTS_SET_ASIDE(folder=str(aside)))
        if self._resume and not begun:
            notes.append(Kind.CHECKPOINTS_MISSING())
        (self.folder / pair.name).symlink_to(kept.absolute(), target_is_directory=True)
        return notes

    def forget(self, pair: Pair) -> None:
        """Remove a model's checkpoints, whose training has its result in place."""
        if pair.name in self._locks:
            shutil.rmtree(self._kept / pair.name, ignore_errors=True)
            shutil.rmtree(self._kept / f"{pair.name}{_PREVIOUS}", ignore_errors=True)
            if not any(self._kept.iterdir()):
                self._kept.rmdir()
