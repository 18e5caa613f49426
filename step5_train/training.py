"""A training that can be interrupted: its curves, its log, its checkpoints and its best weights.

NumPy only and the same on both sides.  A checkpoint is one .npz with all that the next steps depend
on: the weights, the optimizer's memory and the place in the order of samples.  Random numbers need
none of it: the tape gives each by (seed, site, step), and the schedule is a function of the step.
So a training that goes on from a checkpoint ends bit for bit where one that was never stopped ends.

    FOLDER/last.npz   the checkpoint, written whole
    FOLDER/train.log  the log in the guide's standard form
    FOLDER/best/      weights.npz (torch's names) and config.json of the best epoch: for --weights
"""

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import best_score
from twincheck.common.pair.provenance import model_sources, workbench_sha256
from twincheck.common.sides.batch_norm import recall_statistics, running_statistics
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.frameworks import SETTINGS
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.json_file import write_json
from twincheck.common.system.npz import read_npz
from twincheck.common.weights.states import load_state, save_state

LOG_EVERY = 10  # steps
TWINS = 3  # self-twins of a side; with the run itself four, which is how far apart rounding leads
SAVE_EVERY_S = 60.0  # beside the one after each epoch
_KEY, _SCORES = "key", "scores"
_CURVES = ("losses", "rates", "orders")


def improved(scores: Sequence[Mapping[str, float]], settings: Mapping, equal: bool) -> list[bool]:
    """Which epochs have a better score than all before them; `equal`: one that equals the best."""
    best, found = math.inf, []
    for of_epoch in scores:
        kind, name = best_score(settings, of_epoch)
        value = of_epoch[name] if kind == "smallest" else -of_epoch[name]
        better = bool(np.isfinite(value)) and (value < best or equal and value == best)
        best = value if better else best
        found.append(better)
    return found


def stops_after(scores: Sequence[Mapping[str, float]], settings: Mapping, patience: int) -> float:
    """After how many epochs of these scores a training stops early; infinity where it does not.

    A score that equals the best one so far is a better one, as in Informer's reference.
    """
    without = 0
    for epoch, better in enumerate(improved(scores, settings, equal=True), 1):
        without = 0 if better else without + 1
        if without >= patience:
            return epoch
    return math.inf


class Training:
    """The state of a training: the step, the curves so far, and each epoch's scores.

    With --resume it goes on from its checkpoint, where there is one; raises UserError where that
    file belongs to another training, or is no checkpoint.
    """

    def __init__(self, run, model, optimizer, settings: Mapping, per_epoch, steps, twin=0):
        """`run` is the twin's; `per_epoch` and `steps` count those of an epoch and of all of it.

        twin    the number of a self-twin; 0: the run itself
        """
        self.run = run
        self.model = model
        self.optimizer = optimizer
        self.settings = settings
        self.per_epoch = per_epoch
        self.steps = steps
        self.losses: list[float] = []  # of each step
        self.rates: list[float] = []
        self.orders: list[int] = []  # of each epoch: a hash of its samples in their order
        self.scores: list[dict[str, float]] = []  # of each epoch
        self.step_of_epoch = 0  # how many steps of the epoch were taken
        self._digest = b""  # of the epoch's samples so far
        name = f"{run.job.slot}-{run.request.phase}-{twin or run.case.seed}"
        base = Path(run.request.checkpoints or run.folder / "checkpoints")
        self.folder = base / run.pair.name / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.folder / "train.log"
        self._saved_at = time.monotonic()
        self._window: list[tuple[float, float, int]] = []  # seconds, of these reading; samples
        self._key = json.dumps(self._depends_on(), sort_keys=True)
        last = self.folder / "last.npz"
        if run.request.resume and last.is_file():
            self._load(last)
        else:
            self._log.write_text("")

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return len(self.losses)

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next step belongs to, from 0."""
        return len(self.scores)

    @property
    def ended(self) -> bool:
        """True once every epoch has its scores, or the training stops early."""
        return self.epoch == self._epochs() or self.stopped

    @property
    def stopped(self) -> bool:
        """True where so many epochs as settings["patience"] brought nothing better.

        It follows from the scores alone, which a checkpoint holds.
        """
        patience = self.settings["patience"] or math.inf
        return stops_after(self.scores, self.settings, patience) <= self.epoch

    def _improved(self) -> list[bool]:
        return improved(self.scores, self.settings, equal=bool(self.settings["patience"]))

    def took(self, batch: Mapping, rate: float, loss: float, reading_s: float, all_s: float):
        """Record a step: its samples, learning rate and loss, seconds of reading and in all."""
        digest = hashlib.sha256(self._digest)
        for values in batch.values():
            digest.update(np.ascontiguousarray(values).tobytes())
        self._digest = digest.digest()
        self.losses.append(loss)
        self.rates.append(rate)
        self.step_of_epoch += 1
        self._window.append((all_s, reading_s, len(next(iter(batch.values())))))
        if self.step % LOG_EVERY == 0 or self.step == self.steps:
            self._write_line()
        in_epoch = self.step_of_epoch < self.per_epoch and self.step < self.steps
        every = self.run.request.checkpoint_every
        due = self.step % every == 0 if every else time.monotonic() - self._saved_at > SAVE_EVERY_S
        if in_epoch and due:
            self.save()

    def end_epoch(self, scores: Mapping[str, float]) -> None:
        """Record an epoch's scores; keep its weights if they are the best so far, and save."""
        self.orders.append(int.from_bytes(self._digest[:7], "little"))
        self._digest, self.step_of_epoch = b"", 0
        self.scores.append(dict(scores))
        self._say(f"[Eval][Epoch {len(self.scores)}/{self._epochs()}]{_listed(scores)}")
        if self._improved()[-1]:
            self._keep_best()
        if self.stopped:
            self._say(f"stops early: {self.settings['patience']} epochs brought nothing better")
        self.save()
        self.run.progress(f"epoch {len(self.scores)}/{self._epochs()}")

    def take_best(self) -> None:
        """Load the weights of the best epoch into the model, if any epoch had a finite score."""
        if any(self._improved()):
            self.run.load(self.model, load_state(self.folder / "best" / "weights.npz"))

    def finish(self, scores: Mapping[str, float]) -> None:
        """Log the final scores; put the log and the best weights beside the logs of the step."""
        self._say(f"[Test]{_listed(scores)}")
        if self.run.request.phase != "full":
            return
        files, side, seed = ResultFolder(self.run.folder), self.run.job.slot, self.run.case.seed
        shutil.copyfile(self._log, files.training_log(side, seed))
        if (self.folder / "best").is_dir():
            best = files.best_weights(side, seed)
            shutil.copytree(self.folder / "best", best, dirs_exist_ok=True)

    # ---- checkpoints ----------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint; the former one stays until the new one is complete."""
        arrays = {
            _KEY: np.array(self._key),
            _SCORES: np.array(json.dumps(self.scores)),
            **{name: np.array(getattr(self, name)) for name in _CURVES},
            "digest": np.frombuffer(self._digest, np.uint8),
            "step_of_epoch": np.int64(self.step_of_epoch),
            "log_bytes": np.int64(self._log.stat().st_size),
        }
        arrays |= {f"model/{k}": v for k, v in self.run.side.state(self.model).items()}
        arrays |= {f"seen/{k}": v for k, v in running_statistics(self.run.side, self.model)}
        arrays |= {f"optimizer/{k}": v for k, v in self.optimizer.state().items()}
        with whole(self.folder / "last.npz") as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)
        self._saved_at = time.monotonic()

    def _load(self, path: Path) -> None:
        path = path.resolve()  # not the check's working folder's name for it
        try:
            arrays = read_npz(path, text=(_KEY, _SCORES))
            former, scores = (json.loads(str(arrays.pop(name))) for name in (_KEY, _SCORES))
        except (ValueError, KeyError) as error:
            raise UserError(
                f"{path}: not a checkpoint that can be gone on from ({error}); run without "
                "--resume, which starts anew"
            ) from None
        now = json.loads(self._key)
        changed = [name for name in now if former.get(name) != now[name]]
        if changed:
            raise UserError(
                f"{path}: this training was begun with another {', '.join(changed)}; run without "
                "--resume, which starts anew"
            )
        self.scores = scores
        self.losses, self.rates, self.orders = (arrays[name].tolist() for name in _CURVES)
        self._digest = arrays["digest"].tobytes()
        self.step_of_epoch = int(arrays["step_of_epoch"])
        parts = {
            part: {k[len(part) :]: v for k, v in arrays.items() if k.startswith(part)}
            for part in ("model/", "optimizer/", "seen/")
        }
        self.run.side.load_state(self.model, parts["model/"])
        self.optimizer.load_state(parts["optimizer/"])
        recall_statistics(self.run.side, self.model, parts["seen/"])
        os.truncate(self._log, min(self._log.stat().st_size, int(arrays["log_bytes"])))
        self._say(f"goes on from step {self.step} of {self.steps}")

    def _depends_on(self) -> dict[str, object]:
        """What must be unchanged for a checkpoint to be used, each part under its name."""
        run, request = self.run, self.run.request
        settings = {key: os.environ.get(key) for key in SETTINGS}
        return {
            "sources": model_sources(run.pair, run.job.slot),
            "workbench": workbench_sha256(run.pair, run.job.slot, "step5_train"),
            "configuration": [run.case.config, dict(self.settings), self.steps],
            "run": [
                run.job.slot,
                *request.backends,
                request.phase,
                request.seed + run.case.seed,
                run.dtype,
            ],
            "data": arrays_sha256(run.inputs),
            "start": arrays_sha256(run.start()),
            "environment": [run.side.VERSION, np.__version__, request.device, settings],
        }

    def _keep_best(self) -> None:
        new = self.folder / f".best-{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        save_state(new / "weights.npz", self.run.torch_state(self.model))
        write_json(new / "config.json", self.run.case.config)
        shutil.rmtree(self.folder / "best", ignore_errors=True)
        os.replace(new, self.folder / "best")

    # ---- the log --------------------------------------------------------------------------------

    def _epochs(self) -> int:
        return -(-self.steps // self.per_epoch)

    def _write_line(self) -> None:
        """One line in the guide's standard form: loss, seconds of a step, samples a second."""
        total, reading, samples = (sum(column) for column in zip(*self._window, strict=True))
        count = len(self._window)
        self._window.clear()
        ips = samples / total if total > 0 else 0.0
        left = int((self.steps - self.step) * total / count)
        self._say(
            f"[Train][Epoch {self.epoch + 1}/{self._epochs()}]"
            f"[Iter: {self.step_of_epoch}/{self.per_epoch}]lr: {self.rates[-1]:.8f}, "
            f"loss: {self.losses[-1]:.6f}, batch_cost: {total / count:.5f} s, "
            f"reader_cost: {reading / count:.5f} s, avg_samples: {samples / count:.1f}, "
            f"ips: {ips:.2f} samples/s, eta: {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        )

    def _say(self, text: str) -> None:
        line = f"[{time.strftime('%Y/%m/%d %H:%M:%S')}] root INFO: {text}\n"
        with open(self._log, "a", encoding="utf-8") as file:
            file.write(line)
        if not self.run.request.progress:
            print(line, end="", flush=True)
        else:
            self.run.progress(text.partition(", batch_cost")[0])


def _listed(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {value:.5f}" for name, value in scores.items())
