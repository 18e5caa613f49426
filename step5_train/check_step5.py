"""Step 5, train: do the twins train alike, from the same start, order and dropout?

    python step5_train/check_step5.py --model fastformer [--seeds 5] [--resume]
    python step5_train/check_step5.py --model FOLDER --torch-losses FILE --paddle-losses FILE

The first steps must agree to rounding.  Later the two runs drift apart, as any two runs do that
differ in the last bit: how far is judged against torch's own runs from starts one ulp away.  With
--torch-losses or --paddle-losses nothing is trained: losses of somebody else's trainer are judged.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import math
from contextlib import ExitStack

import numpy as np

from common.check.command_line import assist, check_main
from common.check.flags import OF_MACHINES, Parser, positive
from common.check.guard import guarded
from common.check.options import CheckOptions
from common.check.steps import Step
from common.logs.reader import read_log
from common.logs.result_folder import FLOAT32, FLOAT64, ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar
from common.pair.case_hooks import CURVES, best_score, data_preset, training
from common.pair.metrics import RELATIVE
from common.system.errors import UserError
from common.verdict.row import Row, claim
from step4_backward.rates import Watch
from step5_train.as_one import as_one, launches_of
from step5_train.beside import Logged, beside
from step5_train.curves import draw_curves
from step5_train.equivalence import judge_seeds, reached, sentence
from step5_train.judge_initial import judge_initial
from step5_train.trainers import ALLOWED
from step5_train.training import stops_after

# The self-twin's start is off by one ulp once; Paddle's float32 Adam adds its own noise, 20 to 41
# times torch's, at every step.  So the pair's drift is larger while both grow (measured: 10 times),
# or as large some time earlier: a first hash bucket that flips makes it jump (measured: one epoch
# earlier than in the self-twin).  Once both have stopped growing they are alike (0.4 to 2.6 times).
DRIFT_FACTOR = 10.0
DRIFT_EARLIER = 2  # epochs
DRIFT_FLOOR = 2.0**-23  # of the loss: a self-twin that has not drifted yet still rounds
# A self-twin is moved once, by one ulp; the sides' float32 rounds at every step, and how much more
# that is the first steps show.  The same training magnifies both alike, while they are small.
# In a training of few steps the self-twins have hardly moved, and nothing has been magnified: what
# a side's float32 adds at every step is most of the drift, at worst in one direction (measured: the
# first of 15 steps 2e-8 off float64, the fifth 6e-7, the ninth of the two sides 4e-6 apart).
DRIFT_SMALL = 1e-3  # of the loss: what has grown beyond is as large as in the self-twin, or larger
# A part of a training whose drift is one row: an epoch, or several where they have fewer steps.
PART_STEPS = 8
# Two-sided sign test on the samples that only one side gets right (McNemar, exact).
SIGN_TEST_LEVEL = 0.01


def trained_alike(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """Drift of the loss in each epoch against the self-twin's, the final predictions, a picture."""
    files = ResultFolder(folder)
    with ExitStack() as stack:
        torch_log, paddle_log, self_log = (
            stack.enter_context(read_log(files.log(*log)))
            for log in (("train_full", "torch"), ("train_full", "paddle"), ("train_self", "torch"))
        )
        losses = [log["curve/loss"] for log in (torch_log, paddle_log)]
        own = [self_log[key] for key in self_log if key.startswith("twin_")]
        own.insert(0, self_log["curve/loss"])
        epochs = torch_log["curve/order"].size
        settings, noise = settings_of(folder, pair), _first_noise(folder)
        patient = bool(settings["patience"])
        if patient:  # a side may stop early: what all have counts
            taken = min(values.size for values in (*losses, *own))
            losses, own = [v[:taken] for v in losses], [v[:taken] for v in own]
            epochs = min(log["curve/order"].size for log in (torch_log, paddle_log))
        path = files.log("train_full", "torch")
        per_epoch = (read_sidecar(path) or Sidecar()).steps_per_epoch.get("main")
        parts = parts_of(losses[0].size, per_epoch or math.ceil(losses[0].size / epochs))
        # Causes first: the first row that is off is where to look.
        rows = [_order(torch_log["curve/order"], paddle_log["curve/order"], patient)]
        rows.append(_lr(torch_log["curve/lr"], paddle_log["curve/lr"], patient))
        rows += _drift(*losses, own, noise, parts)
        if "predictions" in torch_log and "predictions" in paddle_log:
            rows.append(_predictions(torch_log, paddle_log, self_log))
        stopped, early = _early_stops(torch_log, paddle_log, settings)
        rows += stopped
        of_processes, shared = as_one(folder, pair.name, own, noise, _drift, parts_of)
        rows += of_processes
        if "forecasts" in torch_log and "forecasts" in paddle_log:
            more = _more(losses[0], own, noise)
            rows.append(_forecasts(torch_log, paddle_log, self_log, more))
        of_seeds = _seeds(torch_log, paddle_log, patient)
    draw_curves(folder, pair.name, [steps for _, steps in parts])
    with ExitStack() as stack:
        torch_init, paddle_init = (
            stack.enter_context(read_log(files.log("train_init", side)))
            for side in ("torch", "paddle")
        )
        rows = judge_initial(torch_init, paddle_init) + rows + of_seeds
    notes = [f"{row.key}: {row.note}" for row in of_seeds if row.key.startswith("seeds/")]
    if not notes:
        notes.append("one seed: --seeds 5 says with an interval whether the twins train alike")
    notes = early + shared + notes
    return rows, _rate_too_high(folder) + _few_steps(losses[0].size, len(own)) + notes


def number_reached(folder: Path, pair) -> tuple[dict[str, object], list[str]]:
    """Whether each side reaches the published number, which says nothing about the port."""
    path = ResultFolder(folder).log("train_full", "torch")
    preset = data_preset(pair, (read_sidecar(path) or Sidecar()).preset or "")
    target = getattr(pair.case, "TARGETS", {}).get(preset)
    if target is None:
        return {}, [f"no published number is known for preset {preset}"]
    scores = {}
    for side in ("torch", "paddle"):
        with read_log(ResultFolder(folder).log("train_full", side)) as log:
            scores[side] = _final_scores(log)
            samples = int(log["test_samples"])
    settings = training(pair, pair.config(preset), preset)
    kind = best_score(settings, {name: 0.0 for name in scores["torch"]})[0]
    answers = reached(target, scores, kind, samples)
    return {"targets": answers}, list(dict.fromkeys(map(sentence, answers)))


def _final_scores(log) -> dict[str, list[float]]:
    """Name -> final score of each seed, in the seeds' order."""
    prefixes = [""] + sorted(
        {key.partition("/")[0] + "/" for key in log if key.startswith("seed_")},
        key=lambda prefix: int(prefix[len("seed_") : -1]),
    )
    return {name: [float(log[prefix + name]) for prefix in prefixes] for name in _score_names(log)}


def _score_names(log) -> list[str]:
    """The scores that a log has a curve of."""
    names = [key.removeprefix("curve/") for key in log if key.startswith("curve/")]
    return [name for name in names if name not in CURVES]


def settings_of(folder: Path, pair) -> dict[str, object]:
    """How the preset of these logs is trained."""
    path = ResultFolder(folder).log("train_full", "torch")
    preset = data_preset(pair, (read_sidecar(path) or Sidecar()).preset or "default")
    return training(pair, pair.config(preset), preset)


def _seeds(torch_log, paddle_log, patient: bool) -> list[Row]:
    """Every seed's order and learning rates, then each score over the seeds."""
    scores = [_final_scores(log) for log in (torch_log, paddle_log)]
    count = min(len(values) for side in scores for values in side.values())
    rows = []
    for seed in range(1, count):
        for judge, name in ((_order, "order"), (_lr, "lr")):
            key = f"seed_{seed}/curve/{name}"
            rows.append(judge(torch_log[key], paddle_log[key], patient))
            rows[-1].key = f"seed_{seed}/train/{name}"
    if count > 1:
        names = [name for name in scores[0] if name not in RELATIVE]
        rows += [judge_seeds(name, scores[0][name], scores[1].get(name, [])) for name in names]
    return rows


def parts_of(steps: int, per_epoch: int) -> list[tuple[str, np.ndarray]]:
    """(name, its steps) of each part of a training whose drift is one row.

    A part is an epoch, or as many as have PART_STEPS together; the last may be an epoch that was
    begun.  What is left over behind the last part belongs to it.
    """
    together = -(-PART_STEPS // per_epoch)
    epochs = -(-steps // per_epoch)
    firsts = list(range(0, epochs, together))
    if len(firsts) > 1 and steps - firsts[-1] * per_epoch < PART_STEPS:
        firsts.pop()
    parts = []
    for first, end in zip(firsts, [*firsts[1:], epochs], strict=True):
        name = f"epoch_{end:03d}" if end - first == 1 else f"epochs_{first + 1:03d}_to_{end:03d}"
        parts.append((name, np.arange(first * per_epoch, min(end * per_epoch, steps))))
    return parts


def _drift(torch_loss, paddle_loss, own_losses, noise: np.ndarray, parts) -> list[Row]:
    """One row a part: rms over its steps of the difference of the losses.

    own_losses  of torch's self-twins
    noise       of each of the first steps: how far float32 is from float64 on either side
    """
    rows = []
    lengths = {losses.size for losses in (torch_loss, paddle_loss, *own_losses)}
    if len(lengths) > 1:
        sizes = f"torch {torch_loss.size}, paddle {paddle_loss.size}, self {own_losses[0].size}"
        return [claim("train/drift", math.inf, 0.0, f"not as many steps on each side: {sizes}")]

    def moved(steps) -> float:
        return max(_rms(torch_loss[steps] - losses[steps]) for losses in own_losses)

    more = _more(torch_loss, own_losses, noise)
    own = [moved(steps) for _, steps in parts]
    sizes = [_rms(torch_loss[steps]) for _, steps in parts]
    count = len(own_losses)
    few_steps = count > 1 and noise.size
    a_step = _rms(noise) / _rms(np.arange(noise.size) + 1.0) if few_steps else 0.0
    added = [a_step * _rms(steps + 1.0) for _, steps in parts]
    bounds = [
        max(off, DRIFT_FLOOR * size, min(max(more * off, more_steps), DRIFT_SMALL * size))
        for off, size, more_steps in zip(own, sizes, added, strict=True)
    ]
    twins = "the self-twin drifts" if count == 1 else f"{count} self-twins drift"
    rounds = f"; float32 rounds {more:.1f} times as much in the first steps" if more > 1.0 else ""
    rounds += f", by {a_step:.1e} more at each" if more > 1.0 and a_step else ""
    for i, (name, steps) in enumerate(parts):
        drift = _rms(torch_loss[steps] - paddle_loss[steps])
        allowed = DRIFT_FACTOR * max(bounds[: i + 1 + DRIFT_EARLIER])
        note = (
            f"the sides' float32 losses are {drift:.1e} apart, rms of {steps.size} steps; {twins} "
            f"by {own[i]:.1e}{rounds}"
        )
        rows.append(claim(f"train/drift/{name}", drift, allowed, note))
    return rows


def _more(torch_loss, own_losses, noise: np.ndarray) -> float:
    """How many times a self-twin's drift float32's rounding is in the first steps; at least 1."""
    if not noise.size:
        return 1.0
    first = slice(noise.size)
    moved = max(_rms(torch_loss[first] - losses[first]) for losses in own_losses)
    return max(1.0, _rms(noise) / max(moved, DRIFT_FLOOR * _rms(torch_loss[first])))


def _first_noise(folder: Path) -> np.ndarray:
    """Of each first step's loss the larger difference of float32 and float64, of both sides.

    Both precisions were judged: what is no more than rounding there is rounding here too.
    """
    sides = []
    for side in ("torch", "paddle"):
        paths = [ResultFolder(folder).log("train_first", side, run) for run in (FLOAT32, FLOAT64)]
        if not all(path.is_file() for path in paths):
            continue  # a pair without a float64 path, which a note says
        with read_log(paths[0]) as float32, read_log(paths[1]) as float64:
            keys = [key for key in float32 if key.endswith("/loss") and key in float64]
            sides.append([abs(float(float32[key]) - float(float64[key])) for key in keys])
    same = len({len(noise) for noise in sides}) == 1
    return np.max(sides, axis=0) if same else np.zeros(0)


def _rate_too_high(folder: Path) -> list[str]:
    """A note where the pair's own learning rate makes the loss blow up: the user's to lower."""
    path = ResultFolder(folder).log("train_first", "torch", FLOAT64)
    watch = Watch()
    if path.is_file():
        with read_log(path) as log:
            for key in log:
                if key.endswith("/loss"):
                    watch.see(float(log[key]))
    if not watch.problem:
        return []
    return [
        f"the learning rate that case.py gives is too high for this model: {watch.problem}; "
        "correct sides then drift apart as wrong ones do: lower it"
    ]


def _few_steps(steps: int, twins: int) -> list[str]:
    """What a training of few steps can show, where it is one."""
    if twins == 1:
        return []
    return [
        f"{steps} steps are few: their drift is judged by {twins} self-twins, and a small lasting "
        "error can hide in it; of the first steps the rows train/000/... compare float64 too"
    ]


def _order(torch_order, paddle_order, patient: bool = False) -> Row:
    """Each epoch's samples in their order, as one hash an epoch.

    patient  a side may stop early: the epochs that both have count
    """
    torch_order, paddle_order = _both(torch_order, paddle_order, patient)
    same = torch_order.shape == paddle_order.shape
    wrong = int((torch_order != paddle_order).sum()) if same else torch_order.size
    return claim("train/order", wrong, 0.0, f"{wrong} epochs in which the sides saw other samples")


def _both(torch_values, paddle_values, patient: bool) -> tuple[np.ndarray, np.ndarray]:
    """What both sides have of their curves, where one may have stopped early."""
    count = min(torch_values.size, paddle_values.size) if patient else None
    return torch_values[:count], paddle_values[:count]


def _lr(torch_lr, paddle_lr, patient: bool = False) -> Row:
    torch_lr, paddle_lr = _both(torch_lr, paddle_lr, patient)
    same = torch_lr.shape == paddle_lr.shape
    off = float(np.abs(torch_lr - paddle_lr).max()) if same else math.inf
    return claim("train/lr", off, 1e-12 * float(np.abs(torch_lr).max()), "the schedule")


def _predictions(torch_log, paddle_log, self_log) -> Row:
    """Does one side get more of the test samples right than the other, beyond chance?

    A training that magnifies rounding ends elsewhere from a start one ulp away.  So torch's
    self-twin is as good a reference as torch's own run: the nearer of the two counts.
    """
    labels = torch_log["labels"]
    kept = labels >= 0
    torch_right, paddle_right, self_right = (
        (log["predictions"] == labels)[kept] for log in (torch_log, paddle_log, self_log)
    )
    only_torch, only_paddle, p = _one_side_only(torch_right, paddle_right)
    only_self, other_paddle, self_p = _one_side_only(self_right, paddle_right)
    note = (
        f"accuracy torch {torch_right.mean():.4f}, paddle {paddle_right.mean():.4f} of "
        f"{torch_right.size}; right on one side only: torch {only_torch}, paddle {only_paddle}; "
        f"p = {p:.2f}; or torch's self-twin {only_self}, paddle {other_paddle}; p = {self_p:.2f}"
    )
    return claim("train/final_predictions", SIGN_TEST_LEVEL / max(p, self_p, 1e-300), 1.0, note)


def _one_side_only(torch_right, paddle_right) -> tuple[int, int, float]:
    """How many samples torch alone has right, how many Paddle alone, and the sign test's p."""
    only_torch = int((torch_right & ~paddle_right).sum())
    only_paddle = int((paddle_right & ~torch_right).sum())
    return only_torch, only_paddle, sign_test(only_torch, only_paddle)


def _early_stops(torch_log, paddle_log, settings) -> tuple[list[Row], list[str]]:
    """Does each side stop where its own scores say, and does each epoch take place until then?

    The sides may stop after different epochs: near the end their scores differ by what rounding
    grew to.  A note says so.
    """
    patience = settings["patience"]
    if not patience:
        return [], []
    rows, ended = [], {}
    for side, log in (("torch", torch_log), ("paddle", paddle_log)):
        curves = {name: log[f"curve/{name}"] for name in _score_names(log)}
        count = log["curve/order"].size
        scores = [{name: float(of[i]) for name, of in curves.items()} for i in range(count)]
        ended[side] = count
        stop = stops_after(scores, settings, patience)
        wrong = abs(count - stop) if stop < math.inf else 0
        note = f"{side} ended after {count} epochs; its scores say {stop if wrong else count}"
        rows.append(claim(f"train/early_stop/{side}", wrong, 0.0, note))
    if ended["torch"] == ended["paddle"]:
        return rows, []
    return rows, [
        f"early stopping: torch ended after {ended['torch']} epochs, paddle after "
        f"{ended['paddle']}; their drift is that of the epochs that both have"
    ]


def _forecasts(torch_log, paddle_log, self_log, more: float) -> Row:
    """Are the forecasts of the test as near to each other as torch's are to its self-twin's?

    more  as of the losses: how much more float32 rounds at every step
    """
    torch_forecasts, paddle_forecasts = torch_log["forecasts"], paddle_log["forecasts"]
    own = self_log["forecasts"]
    key = "train/final_forecasts"
    if not torch_forecasts.shape == paddle_forecasts.shape == own.shape:
        shapes = f"torch {torch_forecasts.shape}, paddle {paddle_forecasts.shape}"
        return claim(key, math.inf, 0.0, f"not the same samples: {shapes}")
    off, moved = _rms(torch_forecasts - paddle_forecasts), _rms(torch_forecasts - own)
    size = _rms(torch_forecasts)
    allowed = DRIFT_FACTOR * max(moved, DRIFT_FLOOR * size, min(more * moved, DRIFT_SMALL * size))
    note = f"the forecasts are {off:.1e} apart, those of the self-twin {moved:.1e}, of {size:.1e}"
    return claim(key, off, allowed, note)


def sign_test(a: int, b: int) -> float:
    """Two-sided exact p-value of `a` against `b` successes under even odds; 1 for none."""
    n = a + b
    tail = sum(math.comb(n, k) for k in range(max(a, b), n + 1)) / 2**n
    return min(1.0, 2.0 * tail)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


STEP = Step(
    number=5,
    title="train",
    script="train",
    launches=launches_of(1),
    several=launches_of,
    judged=("train_first",),
    guide_stem="train_align",
    guide_threshold=0.0015,  # the guide's 0.15 %
    guide_failure="the final scores differ by more than 0.15 %; train/final_predictions or "
    "train/final_forecasts says whether by more than chance",
    data=True,
    trains=True,
    extra=trained_alike,
    answer=number_reached,
)

# What logged losses go by; other options of this check mean nothing there.
OF_LOSSES = ("torch-losses", "paddle-losses", "losses-name", "losses-dtype", "first-batch")
WITH_LOSSES = (
    *(*OF_LOSSES, "model", "preset", "device", "seed", "weights", "out"),
    *("torch-python", "paddle-python", "json", "debug"),
)


def options_parser() -> Parser:
    """What this check takes."""
    parser = Parser(__doc__).take(*STEP.takes)
    said = "that train each side together, on all machines, 1 by default: --processes 4"
    parser.take_other("processes", type=positive, default=1, help=said)
    parser.take(*OF_MACHINES)
    group = parser.add_argument_group("losses that somebody else's trainer logged")
    group.add_argument(
        "--torch-losses",
        type=Path,
        metavar="FILE",
        help="CSV, JSON lines, trainer_state.json, TensorBoard or VisualDL: "
        "--torch-losses runs/trainer_state.json",
    )
    group.add_argument(
        "--paddle-losses",
        type=Path,
        metavar="FILE",
        help="likewise; a side without a file is step 5's own: --paddle-losses vdlrecords.1.log",
    )
    group.add_argument(
        "--losses-name", metavar="NAME", help="of a column or tag: --losses-name train/lm_loss"
    )
    group.add_argument(
        "--losses-dtype",
        choices=tuple(ALLOWED),
        default="float32",
        help="what the trainings computed in, float32 by default: --losses-dtype bfloat16",
    )
    group.add_argument(
        "--first-batch",
        type=Path,
        metavar="FILE",
        help="an .npz with the first step's batch, to tell what differs: --first-batch batch.npz",
    )
    return parser


def main() -> int:
    """See the module's docstring; returns the exit status."""
    given = options_parser().parse_args()
    names = [name for name, _ in given.typed]
    if given.node_rank:
        return guarded(given.debug, lambda: assist(STEP, CheckOptions.of(given)))
    if not set(OF_LOSSES) & set(names):
        return check_main(STEP, parser=options_parser())

    def run() -> int:
        if given.torch_losses is None and given.paddle_losses is None:
            raise UserError("give the losses, too: --torch-losses FILE, --paddle-losses FILE")
        idle = [f"--{name}" for name in names if name not in WITH_LOSSES]
        if idle:
            raise UserError(f"{', '.join(idle)} has no use with logged losses: leave it out")
        logged = Logged(
            given.torch_losses,
            given.paddle_losses,
            given.losses_name,
            given.losses_dtype,
            given.first_batch,
        )
        own = (_drift, parts_of, _first_noise)
        return beside(STEP, CheckOptions.of(given), logged, given.json, *own)

    return guarded(given.debug, run)


if __name__ == "__main__":
    sys.exit(main())
