"""Measure how half precision's errors spread over seeds: correct pairs, and Paddle's over torch's.

    python -m tools.half_spread                 a table, for docs/half-precision.md
    python -m tools.half_spread --seeds 4 --dtype float16

Each row is a model: over all its tensors and seeds, the candidate's error over the reference's
(root mean square, maximum, along vectors), and the largest part used of what the rule allows where
no cause is seen (factor 2) and where one is (factor 1.1).
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy")

import argparse
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.of_a_run import Logs
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.half import HALF
from twincheck.common.verdict.half import Half, Measured

# Name -> model, preset, step.
MODELS = {
    "decoders (casts)": ("faults/pairs/casts", "half", 1),
    "encoder, 11 ways": ("faults/pairs/halves", "encoder", 1),
    "image model, 11 ways": ("faults/pairs/halves", "vision", 1),
    "fastformer": ("fastformer", "default", 1),
    "reformer": ("reformer", "default", 1),
    "gradients of both (halves)": ("faults/pairs/halves", "default", 4),
}
CHECKS = {1: ("step1_forward", "forward_all"), 4: ("step4_backward", "bp_align_all")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=HALF, default=HALF[0])
    parser.add_argument("--seeds", type=int, default=8, metavar="N")
    parser.add_argument("--only", action="append", choices=MODELS)
    options = parser.parse_args(arguments)
    print(
        "| model | tensors | error, Paddle over torch: middle 90 % | of one tensor, over seeds "
        "| largest | most of what is allowed | with a cause |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in options.only or MODELS:
        print(f"| {name} | {' | '.join(_row(name, options.dtype, options.seeds))} |", flush=True)
    return 0


def _row(name: str, dtype: str, seeds: int) -> Iterator[str]:
    found: dict[str, list[float]] = {}
    shares, caused = [], []
    for seed in range(seeds):
        for key, plain, narrow in measured(*MODELS[name], dtype, seed):
            if plain.ratio is not None:
                found.setdefault(key, []).append(plain.ratio)
            shares.append(plain.share)
            caused.append(narrow.share)
    ratios = np.concatenate(list(found.values()))
    spread = np.median([np.std(each, ddof=1) for each in found.values() if len(each) > 1])
    low, high = np.quantile(ratios, [0.05, 0.95])
    yield f"{len(found)} × {seeds}"
    yield f"{low:.3f} to {high:.3f}"
    yield f"± {spread:.3f}"
    yield f"{ratios.max():.2f}"
    yield f"{max(shares):.2f}"
    yield f"{max(caused):.2f}"


def measured(
    model: str, preset: str, step: int, dtype: str, seed: int
) -> Iterator[tuple[str, Measured, Measured]]:
    """Key, and its errors judged without and with a cause, of every tensor of one check."""
    folder, stem = CHECKS[step]
    script = str(ROOT / folder / f"check_step{step}.py")
    with tempfile.TemporaryDirectory(prefix="half-spread-") as out, ExitStack() as stack:
        command = [sys.executable, "-W", "ignore", script, "--model", model, "--preset", preset]
        command += ["--dtype", dtype, "--seed", str(seed), "--keep", "all", "--no-report"]
        done = subprocess.run([*command, "--out", out], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            print(f"{model}, seed {seed}: exit status {done.returncode}", file=sys.stderr)
        files = ResultFolder(Path(out) / folder / Path(model).name)
        logs = Logs(stack, files.judged_logs(stem))
        half = Half(logs)
        for name in logs.keys():
            key = Key.parse(name, logs.cases)
            pair = [half.measure(key, caused, inside=True) for caused in (False, True)]
            if all(pair):
                yield name, *pair


if __name__ == "__main__":
    sys.exit(main())
