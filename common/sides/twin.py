"""What every twin script shares: options, the loop over models and precisions, logs, sidecars.

A script defines `function(run)`, which computes and logs one case, and calls `main`.  It needs
NumPy and its own framework, nothing else.  The float64 run comes first; the reference's records the
discrete choices, and every other run goes on with them (common/verdict/choices.py says why).
"""

import argparse
import importlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from common.logs.reader import read_log
from common.logs.sidecar import read_sidecar, write_sidecar
from common.pair.pairs import Case, Pair, load_pairs
from common.sides.compat import forbid_compat
from common.sides.places import of_framework_file
from common.sides.run import Run
from common.sides.session import current
from common.sides.shared_weights import describe, make_weights, save
from common.sides.write_log import write_log
from common.system.errors import UserError
from common.system.npz import read_npz
from common.system.processes import watch
from common.transplant import operators
from common.weights import states as weights
from common.weights.layout import LayoutError
from common.weights.published import published

DTYPES = ("float64", "float32")
PHASES = ("first", "full", "self")  # of step 5


def main(
    side: ModuleType,
    stem: str,
    function: Callable[[Run], None],
    dtypes: tuple[str, ...] = DTYPES,
    cases: Callable[[Pair, argparse.Namespace], list[Case]] | None = None,
    part: str = "",
) -> int:
    """Run a twin script for every model asked for; returns the exit status (0, or 2 on errors).

    stem     names the logs: `forward` gives forward_torch.npy, forward_torch_fp64.npy, …
    cases    what to run for a pair; by default the preset's cases
    part     a folder in the model's for the logs of a process that is one of several
    """
    watch()
    options = _parse(stem)
    status = 0
    try:
        options.transplant = _transplant(side, options.transplant)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for draws in ("dropout", "choices"):
        importlib.import_module(f"common.sides.{side.NAME}_{draws}").patch()
    forbid_compat()
    try:
        if options.save:
            save(side, Path(options.save), Path(options.weights))
            return 0
        pairs = [published(pair, options.published) for pair in load_pairs(options.model)]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for pair in pairs:
        folder = Path(options.out) / pair.name / part
        folder.mkdir(parents=True, exist_ok=True)
        try:
            chosen = (cases or _cases)(pair, options)
            _run_model(side, stem, function, pair, chosen, options, dtypes, folder)
        except Exception as error:
            status = 2
            text = "".join(traceback.format_exception(error))
            if isinstance(error, UserError) or _raised_by_pair(error, pair):
                sentence = str(error)
            else:
                sentence = f"the {side.NAME} twin of {pair.name} crashed: {_sentence(error)}"
            told = {"sentence": sentence, "traceback": text}
            if isinstance(error, LayoutError):
                told["certificate"] = error.certificate
            (folder / f"error_{side.NAME}.json").write_text(json.dumps(told))
            print(f"error: {sentence}", file=sys.stderr)
            if options.debug:
                print(text, file=sys.stderr)
    return status


def _transplant(side: ModuleType, text: str | None):
    """What torch computes on the Paddle side, in place; None where it is nothing."""
    if not text or side.NAME == "torch":
        return None
    names = operators.chosen(text)
    try:
        made = importlib.import_module("common.transplant.patch").Transplant(
            names, lambda: current().site_of_draw()
        )
    except ModuleNotFoundError as error:
        raise UserError(
            f"--transplant: the Paddle side's Python has no {error.name}: it needs both frameworks"
        ) from None
    made.install()
    return made


def _cases(pair: Pair, options: argparse.Namespace) -> list[Case]:
    """What steps 1, 3 and 4 run of a pair."""
    return pair.cases(options.preset, options.weights, options.train)


def cases_with_decoding(pair: Pair, options: argparse.Namespace) -> list[Case]:
    """The same, and the cases that decode with a cache."""
    return pair.cases(options.preset, options.weights, options.train, decode=True)


def _raised_by_pair(error: Exception, pair: Pair) -> bool:
    """True for a ValueError that the pair itself raised: a sentence about a configuration."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ValueError) and Path(frames[-1].filename).parent == pair.folder


def phase() -> str:
    """Step 5's --phase, before the options are parsed: it decides what main is called with."""
    given = [PHASES[0]] + sys.argv[1:]
    return given[given.index("--phase") + 1] if "--phase" in given[:-1] else PHASES[0]


def _sentence(error: Exception) -> str:
    """One line of an exception, with the line of the model where it happened."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not of_framework_file(frame.filename)
    ]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
    # Paddle ends a long C++ report with the sentence that matters.
    text = next((line for line in lines if "Error:" in line), lines[0])
    return f"{type(error).__name__}{where}: {text.strip()[:300]}"


def _parse(stem: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"One side of a step; writes {stem}_SIDE.npy. check_stepN.py runs both sides."
    )
    parser.add_argument("--model", action="append", help="built-in name, folder, or all (default)")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", help="a torch-named .npz, or trained-like")
    parser.add_argument("--certify", action="store_true", help="for common.certificate")
    parser.add_argument("--published", help="a folder of common/weights/checkpoint.py's")
    parser.add_argument("--describe", action="store_true", help="only write who owns which weights")
    parser.add_argument("--save", help="only write --weights as this framework's own file")
    parser.add_argument("--out", default=f"log_{stem}", help="one folder a model is made in here")
    parser.add_argument("--data", help="folder of the embedded data (steps 2 and 5)")
    parser.add_argument("--epochs", type=int, help="step 5: instead of the preset's number")
    parser.add_argument("--steps", type=int, help="step 5: of the whole training, instead of that")
    parser.add_argument("--seeds", type=int, default=1, help="step 5: trainings, each its own seed")
    parser.add_argument("--checkpoints", help="step 5: folder of the checkpoints")
    parser.add_argument("--checkpoint-every", type=int, help="step 5: steps, instead of a minute")
    parser.add_argument("--resume", action="store_true", help="step 5: go on from the checkpoints")
    parser.add_argument(
        "--single-step", action="store_true", help="feed probes the reference's values"
    )
    parser.add_argument("--train", action="store_true", help="train mode, dropout from the tape")
    parser.add_argument("--phase", choices=PHASES, help="step 5: which part to run")
    parser.add_argument("--data-weights", choices=("initial", "stirred"), default="initial")
    parser.add_argument("--processes", type=int, default=1, help="parts of a batch (parallel.py)")
    parser.add_argument("--transplant", help="operators that torch computes on the Paddle side")
    parser.add_argument("--uncounted", action="store_true", help="without Paddle's own beside it")
    parser.add_argument("--only-float32", action="store_true", help="leave out the float64 run")
    parser.add_argument("--progress", action="store_true", help="report progress on stdout")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args()
    options.model = options.model or ["all"]
    return options


def _run_model(side, stem, function, pair, cases, options, dtypes, folder) -> None:
    """Every precision of one model, then the unforced float32 run where a choice fell otherwise.

    Without a float64 run (step 5's whole training) nothing is forced, and the weights are there.
    """
    if options.describe:
        describe(side, pair, cases[0], options, folder)
        return

    def write(name, dtype, forced, reference=None, probing=True):
        path = folder / f"{stem}_{side.NAME}{name}.npy"
        return write_log(
            side, function, pair, cases, options, dtype, path, forced, reference, probing
        )

    aligned = "float64" in dtypes
    if side.NAME == "torch" and aligned:
        make_weights(side, pair, cases, options, folder)
    choices_path = folder / f"{stem}_choices.npz"
    forced = _load_choices(choices_path) if side.NAME == "paddle" and aligned else None
    if options.single_step:
        with read_log(folder / f"{stem}_torch_fp64.npy") as reference:
            write("_fp64_single_step", "float64", forced, reference)
        return
    no_float64 = ""
    for dtype in dtypes[-1:] if options.only_float32 else dtypes:
        try:
            session = write("_fp64" if dtype == "float64" else "", dtype, forced)
        except Exception as error:
            # A model may be tied to float32.  If it is only wrong, float32 fails too, and says so.
            # A full disk or memory says nothing of the model.
            elsewhere = isinstance(error, UserError | OSError | MemoryError)
            if dtype != "float64" or elsewhere or _raised_by_pair(error, pair):
                raise
            no_float64 = _sentence(error)
            continue
        if no_float64:
            _add_to_sidecar(folder / f"{stem}_{side.NAME}.npy", {"no_float64": no_float64})
        if side.NAME == "torch" and aligned and forced is None:
            forced = session.choices
            weights.save_state(choices_path, forced)
        if dtype == "float32" and session.flips:
            write("_unforced", dtype, None, probing=False)


def _add_to_sidecar(path: Path, entries: dict[str, object]) -> None:
    write_sidecar(path, (read_sidecar(path) or {}) | entries)


def _load_choices(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise UserError(
            f"{path.name}: run the torch side first; the Paddle side follows its choices"
        )
    try:
        return read_npz(path)
    except ValueError as error:
        raise UserError(f"{path}: these are no recorded choices: {error}") from None
