"""Find why losses part: train the reference again, with one thing at a time done otherwise.

    twincheck why DIR                       step 5's trainings, which it found unlike
    twincheck why DIR --paddle-losses FILE  what another trainer logged (--torch-losses likewise)

Trains the torch side's first steps as step 5 does, once for each of some 130 changes that trainers
are known to differ in: normalisation over micro-batches and ranks, labels, clipping, decay, the
schedule, the order of samples, dropout, precision.  Says which of them reproduces the other
training's losses, for how many steps and to how many digits.  Where none does by itself, up to
three together.  What rounding alone does is measured, by the reference's self-twins.

It leaves why.json beside step 5's logs: schema 1; model; pair; preset; steps; rounding, the largest
distance of a self-twin; sides, a list of {side, file, parted (step, null: nowhere), torch, other,
explained (bool), trials: a list of {said, agreed, of, digits, off_at,
off_digits, fits}, left_out {said: why}}.

Exit status: 0 the losses do not part, 1 they do, 2 nothing could be compared.
"""

import itertools
import math
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from twincheck.common.check.inputs import Inputs
from twincheck.common.check.options import CheckOptions, Parser, positive
from twincheck.common.check.record import asked_of
from twincheck.common.check.result import shown
from twincheck.common.check.runner import base_folder
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.case_hooks import data_preset, training
from twincheck.common.pair.data import load_arrays
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.request import FIRST
from twincheck.common.pair.windows import part_of
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal as report
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import is_of
from twincheck.extras.shared.sides import answered, asked, only_pair
from twincheck.extras.trainers import Kind
from twincheck.extras.trainers.beside import here, to_train
from twincheck.extras.trainers.hypotheses import hypotheses
from twincheck.extras.trainers.loss_logs import Curve, Together, read_losses, together, trained_here
from twincheck.extras.trainers.option import add_logs
from twincheck.extras.trainers.trainers import Precision, at_places
from twincheck.step5_train.step import STEP
from twincheck.step5_train.train import batches_of
from twincheck.step5_train.training import TWINS

SCHEMA = 1
FILE, CHANGES, STEM = "why.json", "changes.json", "why"
MOST_STEPS = 300  # that are trained to find where the losses part
BEHIND = 8  # steps behind that place which a change must reproduce, too
RETRAIN = "twincheck.extras.trainers.retrain"  # what the torch side runs
SURE = 3  # steps after which most changes are known not to
SHOWN = 5  # of the changes that fit, and of those that do not
BASES = 8  # of the changes that help are tried together with others
TOGETHER = 3  # changes at most
PATIENCE_S = 60.0  # for changes together; as long as the others took, where that is more


@dataclass(frozen=True)
class Trial:
    """The result of one change, beside the other training's losses."""

    said: str
    agreed: int  # how many losses, from the first on, are equal but for rounding
    of: int  # how many were compared
    digits: float  # so many are shared by the losses that agree
    off_at: int | None = None  # the first step whose losses do not
    off_digits: float = 0.0  # that are shared there

    @property
    def fits(self) -> bool:
        """Return whether the change reproduces all losses."""
        return self.off_at is None or self.agreed >= self.of

    def rank(self) -> tuple:
        """Return a key that sorts the nearest first; at equal digits the commonest comes first."""
        digits = self.digits if self.fits else self.off_digits
        return (not self.fits, -self.agreed, -round(digits, 1))


@dataclass
class Explained:
    """One training's losses, and what reproduces them."""

    side: str
    curve: Curve
    usual: Trial  # the reference's training as it is
    torch: float = math.nan  # both losses where they part
    other: float = math.nan
    trials: list[Trial] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def parted(self) -> int | None:
        """The first step whose losses differ by more than rounding."""
        return self.usual.off_at

    @property
    def fitting(self) -> list[Trial]:
        """The changes that reproduce all losses."""
        return [trial for trial in self.trials if trial.fits]

    def as_json(self) -> dict[str, object]:
        """See the module's docstring."""
        return {
            "side": self.side,
            "file": self.curve.path or None,
            "parted": self.parted,
            "torch": _number(self.torch),
            "other": _number(self.other),
            "explained": bool(self.fitting),
            "trials": [{**asdict(trial), "fits": trial.fits} for trial in self.trials],
            "left_out": self.left_out,
        }


class Trainings:
    """The reference's trainings, in a process of its own."""

    def __init__(self, process: WorkerProcess, run, folder: Path):
        self.process, self.folder = process, folder
        self.left_out: dict[str, str] = {}
        self.weights: list[str] = []  # their names, and those of the model's dropout layers
        self.dropouts: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.run = replace(run, only_float32=False)
        self._ask({"": {}}, 1)  # a float64 run makes what all start from
        self.run = run

    def curves(self, changes: Mapping[str, Mapping], steps: int) -> dict[str, np.ndarray]:
        """Words -> losses (steps,) under each change; without those that have no place here."""
        numbered = {f"{number:03d}": change for number, change in enumerate(changes.values())}
        self._ask(numbered, steps)
        told = load_json(self.folder / "told.json")
        self.weights, self.dropouts = told["weights"], told["dropouts"]
        found = {}
        with read_log(ResultFolder(self.folder).log(STEM, "torch")) as log:
            for number, said in zip(numbered, changes, strict=True):
                if number in told["left_out"]:
                    self.left_out[said] = told["left_out"][number]
                else:
                    found[said] = np.asarray(log[f"curve/{number}"], np.float64)
        return found

    def _ask(self, changes: Mapping[str, Mapping], steps: int) -> None:
        write_json(self.folder / CHANGES, {"steps": steps, "changes": changes})
        answered(self.process, self.run, self.folder / "request_torch.json")


@dataclass
class Judge:
    """Holds trainings of the reference against the losses of another one."""

    curve: Curve
    dtype: str
    usual: np.ndarray  # the reference's own losses
    twins: Sequence[np.ndarray]  # its self-twins'

    def together(self, losses: np.ndarray) -> tuple[Together, Precision]:
        """Put both curves at the same places; return their precision too."""
        ours = trained_here(losses)
        precision = Precision(ours, self.curve, self.dtype)
        return together(ours, self.curve, precision.alike), precision

    def trial(self, said: str, losses: np.ndarray) -> Trial:
        """Compare a training's losses with the other one's."""
        found, precision = self.together(losses)
        apart = np.abs(found.torch - found.paddle)
        largest = np.maximum(np.abs(found.torch), np.abs(found.paddle))
        allowed = np.array([precision.allowed(each) for each in largest]) + self.rounding(found)
        off = np.flatnonzero(~(apart <= allowed))  # NaN is off
        agreed = int(off[0]) if off.size else found.steps.size
        shared = -np.log10(np.clip(apart / np.maximum(largest, 1e-300), 1e-16, 1.0))
        shared = np.where(np.isfinite(shared), shared, 0.0)
        digits = float(shared[:agreed].min(initial=16.0)) if agreed else 0.0
        if not off.size:
            return Trial(said, agreed, agreed, digits)
        step, there = int(found.steps[agreed]), float(shared[agreed])
        return Trial(said, agreed, found.steps.size, digits, step, there)

    def rounding(self, found: Together) -> np.ndarray:
        """Measure how far rounding drove the self-twins from the training, up to each place."""
        usual = at_places(found, self.usual)
        apart = [np.abs(at_places(found, twin) - usual) for twin in self.twins]
        return np.maximum.accumulate(np.max(apart, axis=0))

    @property
    def logs_first_steps(self) -> bool:
        """Return whether each of the first steps has a loss of its own."""
        return self.curve.every == 1 and self.curve.steps[0] <= 1

    def steps(self, usual: Trial) -> int:
        """Return how many steps tell whether a change reproduces the losses."""
        found, _ = self.together(self.usual)
        enough = found.steps[found.steps >= usual.off_at + BEHIND]
        return int(enough[0] if enough.size else found.steps[-1])


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "why")
    taken = "model", "out", "preset", "data", "tokenizer", "seed", "weights", "epochs", "json"
    add_logs(parser.take(*taken))
    said = Kind.HELP_STEPS(steps=MOST_STEPS)
    parser.take_other("steps", type=positive, default=MOST_STEPS, help=said)
    given = parser.take("torch-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: why(given))


def why(given: Namespace) -> int:
    """Explain the losses that the command line names; returns the exit status."""
    steps, given.steps = given.steps, None
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODEL_MISSING_TO_WHY(command=to_type("why", "DIR")))
    base = base_folder(STEP, options)
    folder = base / pair.name
    options, curves = _other_trainings(pair, folder, options, given)
    started = time.monotonic()
    with (
        report.progress() as on_progress,
        asked(pair, options, base, phase="full", seeds=1, only_float32=True) as one,
    ):
        inputs = Inputs(STEP, options, one.pythons, one.work, on_progress, None)
        if not inputs.make_data(one.pair):
            raise UserError(inputs.errors[pair.name].sentence)
        run = replace(one.run, data=str(inputs.data))
        first = FIRST.format("torch")
        with WorkerProcess(one.pythons["torch"], first, on_progress, run.device) as process:
            process.module = RETRAIN
            trainings = Trainings(process, run, one.work / pair.name)
            told = explain(one.pair, trainings, inputs.data, curves, steps, given.losses_dtype)
        _same_data(folder, trainings.folder, curves)
    result = {"schema": SCHEMA, "model": pair.name, "pair": str(pair.folder)}
    result |= {"preset": data_preset(pair, run.preset), **told}
    explained = result.pop("explained")
    result["sides"] = [each.as_json() for each in explained]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE, result)
    if given.json:
        write_json(given.json, result)
    for each in explained:
        show(pair.name, each, result)
    taken = time.monotonic() - started
    report.say(Kind.WRITTEN_AFTER(path=shown(folder / FILE), seconds=taken))
    return int(any(each.parted is not None for each in explained))


def _other_trainings(pair: Pair, folder: Path, options: CheckOptions, given: Namespace):
    """(the options with what step 5 was asked for, side -> the losses that are to be explained)."""
    files = {side: getattr(given, f"{side}_losses") for side in SIDES}
    curves = {side: read_losses(path, given.losses_name) for side, path in files.items() if path}
    ran = here(folder, pair)
    if ran is not None:
        typed = {name.replace("-", "_") for name, _ in options.typed}
        before = {n: v for n, v in asked_of("train_first", folder).items() if n not in typed}
        options = replace(options, run=replace(options.run, **before))
    if not curves:
        if ran is None:
            raise UserError(Kind.TRAINING_MISSING(command=to_train(options)))
        curves = {"paddle": ran["paddle"]}
    return options, curves


def _same_data(former: Path, made: Path, curves: Mapping[str, Curve]) -> None:
    """Raise UserError where step 5's losses are explained, and it trained on other data."""
    if any(curve.path for curve in curves.values()):
        return
    logs = [ResultFolder(former).log("train_full", "torch"), ResultFolder(made).log(STEM, "torch")]
    if len({sidecar_of(log).inputs_sha256 for log in logs}) > 1:
        raise UserError(Kind.DATA_OF_ANOTHER())


def explain(
    pair: Pair,
    trainings: Trainings,
    data: Path,
    curves: Mapping[str, Curve],
    steps: int,
    dtype: str = "float32",
) -> dict[str, object]:
    """steps, rounding and explained (see the module's docstring; Explained) of other trainings.

    data    the folder of the models' data
    steps   that are looked at, at most
    """
    samples = part_of(load_arrays(data / pair.name / "samples.npz"), "train")
    preset = data_preset(pair, trainings.run.preset)
    settings = training(pair, pair.config(preset), preset)
    per_epoch = batches_of(samples, settings)
    total = trainings.run.steps or per_epoch * (trainings.run.epochs or settings["epochs"])
    steps = min(steps, total)
    twins = {f"twin {number}": {"twin": number} for number in range(1, 1 + TWINS)}
    usual, *moved = trainings.curves({"": {}} | twins, steps).values()
    explained = []
    for side, curve in curves.items():
        judge = Judge(curve, dtype, usual, moved)
        found, _ = judge.together(usual)
        one = Explained(side, curve, judge.trial("", usual))
        explained.append(one)
        if one.parted is None:
            continue
        place = one.usual.agreed
        one.torch, one.other = float(found.torch[place]), float(found.paddle[place])
        ratio = found.paddle[0] / found.torch[0] if found.torch[0] else 1.0
        names = trainings.weights, trainings.dropouts
        changes = hypotheses(
            *(settings, samples, *names, per_epoch, trainings.run.seed, float(ratio))
        )
        trainings.left_out = {}
        one.trials = Search(trainings, judge, changes, one.usual).run()
        one.left_out = trainings.left_out
    rounding = max(float(np.abs(twin - usual).max()) for twin in moved)
    return {"steps": steps, "rounding": rounding, "explained": explained}


@dataclass
class Search:
    """The search for what reproduces a training's losses: one change, else several together."""

    trainings: Trainings
    judge: Judge
    changes: dict[str, dict]
    usual: Trial
    started: float = field(default_factory=time.monotonic)
    until: float = math.inf  # when nothing more is tried together
    trained: int = 0  # steps, in all

    def run(self) -> list[Trial]:
        """Try each change; return the trials, the nearest first."""
        steps = self.judge.steps(self.usual)
        trials = self.tried(self.changes, steps)
        found, singles = list(trials), dict(self.changes)
        now = time.monotonic()
        self.until = now + max(PATIENCE_S, now - self.started)
        for _ in range(TOGETHER - 1):
            helping = sorted(filter(self.helps, found), key=Trial.rank)
            if any(trial.fits for trial in trials):
                break
            if helping:
                pairs = itertools.product((t.said for t in helping[:BASES]), singles)
            else:
                pairs = self.by_first_loss()
            both = self.merged(pairs)
            self.changes |= both
            found = self.tried(both, steps)
            trials += found
        fitting = {trial.said: self.changes[trial.said] for trial in trials if trial.fits}
        if fitting:  # by all losses: some can be told apart later alone
            curves = self.trainings.curves(fitting, self.judge.usual.size)
            trials = [trial for trial in trials if not trial.fits]
            trials += [self.judge.trial(said, losses) for said, losses in curves.items()]
            # Behind the place where the best of them is off, rounding has outgrown its measure.
            furthest = max(trial.agreed for trial in trials)
            trials = [replace(trial, of=furthest) for trial in trials]
        return sorted(trials, key=Trial.rank)

    def helps(self, trial: Trial) -> bool:
        """Return whether a change reproduces more losses than none does, and than its parts."""
        least = max(self.usual.agreed, self.changes[trial.said].get("made_of", 0))
        return trial.agreed > least

    def tried(self, changes: dict, steps: int) -> list[Trial]:
        """Every change for some steps, and those that are not off by then for all."""
        kept, out = changes, []
        first = self.judge.logs_first_steps and steps > SURE
        for taken in (SURE, steps) if first else (steps,):
            curves = self.trainings.curves(kept, taken) if kept else {}
            self.trained += taken * len(curves)
            trials = [self.judge.trial(said, losses) for said, losses in curves.items()]
            if taken < steps:
                out = [trial for trial in trials if not trial.fits]
                kept = {trial.said: changes[trial.said] for trial in trials if trial.fits}
            else:
                out += trials
        full = max((trial.of for trial in out), default=0)
        return [replace(trial, of=full) for trial in out]

    def by_first_loss(self) -> list[tuple[str, str]]:
        """Pairs of the changes that make the first loss another one; none where that is not off.

        Those come first of which both together come nearest, if what they change adds up.
        """
        if self.usual.agreed or not self.judge.logs_first_steps:
            return []
        curves, usual = self.trainings.curves(self.changes, 1), self.judge.usual[0]
        moved = {said: losses[0] - usual for said, losses in curves.items()}
        moved = {said: by for said, by in moved.items() if by and np.isfinite(by)}
        wanted = self.judge.curve.losses[0] - usual
        pairs = itertools.combinations(moved, 2)
        return sorted(pairs, key=lambda pair: abs(moved[pair[0]] + moved[pair[1]] - wanted))

    def merged(self, pairs) -> dict[str, dict]:
        """Merge each of some pairs of changes into one; as many as there is time for."""
        now = time.monotonic()
        each_s = (now - self.started) / max(1, self.trained) * SURE
        most = (self.until - now) / each_s
        both: dict[str, dict] = {}
        places = {said: place for place, said in enumerate(self.changes)}
        for first, second in pairs:
            if len(both) >= most:
                break
            change = merge(self.changes[first], self.changes[second])
            if second not in _parts(first) and change is not None:
                said, *others = sorted([*_parts(first), second], key=places.__getitem__)
                for one in (part for other in others for part in _parts(other)):
                    said = Kind.BOTH(first=said, second=one)
                both.setdefault(said, change)
        return both


def _parts(said: str) -> list[str]:
    """Return the changes that one is made of."""
    both = is_of(said, Kind.BOTH)
    return [*_parts(said.fields["first"]), said.fields["second"]] if both else [said]


def merge(first: Mapping, second: Mapping) -> dict | None:
    """Merge both changes into one; None where they are about the same thing."""
    merged = dict(first)
    for name, value in second.items():
        if name == "made_of" or name not in merged:
            merged[name] = value
        elif name in ("settings", "rule") and not set(merged[name]) & set(value):
            merged[name] = {**merged[name], **value}
        elif name == "undropped":
            merged[name] = [*merged[name], *value]
        else:
            return None
    return merged


def show(model: str, one: Explained, result: Mapping) -> None:
    """Print where the losses part, what reproduces them, and what comes nearest."""
    path = one.curve.path
    whose = {"losses": Kind.LOSSES_IN(path=path) if path else Kind.LOSSES_OF(side=one.side)}
    whose["model"] = model
    if one.parted is None:
        report.say(Kind.DO_NOT_PART(**whose, step=result["steps"], count=one.usual.of))
        return
    report.say(Kind.PART(**whose, step=one.parted, torch=one.torch, other=one.other))
    fitting, others = one.fitting, [trial for trial in one.trials if not trial.fits]
    for trial in fitting[:SHOWN]:
        of = {"count": trial.agreed, "digits": trial.digits, "said": trial.said}
        until = Kind.UP_TO(step=trial.off_at) if trial.off_at else ""
        report.say(Kind.REPRODUCES(**of, until=until))
    if len(fitting) > SHOWN:
        report.say(Kind.OTHERS_REPRODUCE(count=len(fitting) - SHOWN))
    if not fitting:
        report.say(Kind.NONE_REPRODUCES(count=len(others)))
    for trial in others[:SHOWN]:
        off = {"digits": trial.off_digits, "step": trial.off_at}
        report.say(Kind.NOT_IT(count=trial.agreed, **off, said=trial.said))
    if len(others) > SHOWN:
        report.say(Kind.NOR_OTHERS(count=len(others) - SHOWN))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
