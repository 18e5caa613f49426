"""What a check of an everyday model costs, beside its passes with nothing attached.

    python -m tools.everyday --pair resnet18 --step 4 --torch-python PATH --paddle-python PATH
    python -m tools.everyday --pair FOLDER --preset small --step 1
    python -m tools.everyday --pair enwik8 --step 1 -- --transplant all   (options of the check)

Runs one check as a user would, in a session and a folder of its own, and prints wall and CPU
seconds, disk and memory at their highest (tools/measure.py says how), then runs the same passes of
the same model bare, each framework alone (tools/bare.py), and prints the ratio last.  Exit status
0: the check was measured, whatever it said; 2: it could not be.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.measure import measure
from twincheck.common.pair.pairs import built_in_models
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import find_interpreter
from twincheck.common.system.processes import environment
from twincheck.common.system.program import Parser, guarded
from twincheck.step4_backward import setups

CHECKS = {
    1: "step1_forward/check_step1.py",
    3: "step3_loss/check_step3.py",
    4: "step4_backward/check_step4.py",
}
WITNESS = "witness"  # how the parts of bare runs begin that only the check asks for
WITHOUT_MODEL = ("import", "build")
LAST_LINES = 3
MEGA, GIGA = 1e6, 1e9
# As step 4 itself: in a model of more values than that, these set-ups take given gradients.
LARGE, GIVEN_IF_LARGE = RunRequest.given_gradients_above, setups.GIVEN


@dataclass(frozen=True)
class Everyday:
    """A pair of everyday size: its folder or built-in name, its preset, options of its checks."""

    model: str
    preset: str = "default"
    options: tuple[str, ...] = ()


VISION, BERT = "examples/torchvision_paddle_vision", "examples/transformers_paddlenlp_bert"
PAIRS = {
    "resnet18": Everyday(VISION, "resnet18_224"),
    "resnet50": Everyday(VISION, "resnet50_224"),
    "bert": Everyday(BERT, "base"),
    "enwik8": Everyday("reformer", "enwik8", ("--weights", "trained-like")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument(
        "--pair",
        required=True,
        metavar="NAME|FOLDER",
        help=f"{', '.join(PAIRS)}, a built-in model, or a folder",
    )
    parser.add_argument("--step", type=int, choices=sorted(CHECKS), default=1)
    parser.add_argument("--preset", metavar="NAME", help="another than the pair's own here")
    for side in SIDES:
        parser.add_argument(f"--{side}-python", metavar="PATH", help="as the checks take it")
    parser.add_argument(
        "--checkout", type=Path, default=ROOT, metavar="DIR", help="measure the check of another"
    )
    parser.add_argument("--no-bare", action="store_true", help="measure the check alone")
    parser.add_argument("--no-check", action="store_true", help="run the bare passes alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="handed to the check")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    if options.no_check and (options.no_bare or options.options):
        given = "--no-bare" if options.no_bare else " ".join(options.options)
        raise UserError(f"--no-check runs the bare passes alone: leave out {given}")
    pair = chosen(options.pair, options.preset)
    with _folder() as folder:
        found = {"pair": options.pair, "preset": pair.preset, "step": options.step}
        if not options.no_check:
            found["check"] = of_check(pair, options, folder)
        if not options.no_bare:
            found["bare"] = {side: of_bare(side, pair, options, folder) for side in SIDES}
    print(as_text(found))
    if options.json:
        write_text(options.json, json.dumps(found, indent=1, allow_nan=False))
    return 0


def chosen(name: str, preset: str | None) -> Everyday:
    """The pair of a name here, built in, or of a folder; raises UserError where it is none."""
    if name in PAIRS:
        known = PAIRS[name]
        return Everyday(known.model, preset or known.preset, known.options)
    if name in built_in_models():
        return Everyday(name, preset or "default")
    if not (Path(name) / "case.py").is_file():
        known = ", ".join((*PAIRS, *built_in_models()))
        raise UserError(f"--pair {name}: neither {known} nor a pair's folder")
    return Everyday(str(Path(name).resolve()), preset or "default")


@contextmanager
def _folder():
    """A folder for logs and temporary files, on the checkout's disk; gone afterwards."""
    (ROOT / "log").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="everyday-", dir=ROOT / "log"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def of_check(pair: Everyday, options: argparse.Namespace, folder: Path) -> dict:
    """Run the check; what it cost and what it said.  Raises UserError where it gave no report."""
    root = options.checkout.resolve()
    report, said = folder / "rows.json", folder / "said.txt"
    results, temporary = folder / "results", folder / "temporary"
    for made in (results, temporary):
        made.mkdir()
    model = str(ROOT / pair.model) if "/" in pair.model else pair.model
    command = [sys.executable, str(root / CHECKS[options.step]), "--model", model]
    command += ["--preset", pair.preset, *pair.options, *options.options]
    for side in SIDES:
        python = getattr(options, f"{side}_python")
        command += [f"--{side}-python", python] if python else []
    command += ["--out", str(results), "--json", str(report)]
    measured = measure(
        command, (results, temporary), said, {**os.environ, "TMPDIR": str(temporary)}
    )
    if not report.is_file():
        last = "\n".join(said.read_text(errors="replace").strip().splitlines()[-LAST_LINES:])
        cost = "\n".join(_cost(measured.as_dict()))
        raise UserError(f"the check gave no report (exit status {measured.status}): {last}\n{cost}")
    told = json.loads(report.read_text())
    return measured.as_dict() | {
        "verdict": told["verdict"],
        "rows": len(told["rows"]),
        "error": " ".join(told["errors"].values()),
    }


def of_bare(side: str, pair: Everyday, options: argparse.Namespace, folder: Path) -> dict:
    """Run one framework's passes; what the process cost, and what each part took in it."""
    python = find_interpreter(side, getattr(options, f"{side}_python"), environment(), ROOT)
    request, answer, said = (
        folder / f"bare_{side}{end}" for end in (".json", "_said.json", ".txt")
    )
    weights = dict(zip(pair.options, pair.options[1:], strict=False)).get("--weights")
    typed = dict(zip(options.options, options.options[1:], strict=False))
    mode = typed.get("--mode", RunRequest.mode)
    asked = {
        "model": str(ROOT / pair.model) if "/" in pair.model else pair.model,
        "preset": pair.preset,
        "weights": weights,
        "mode": mode,
        "seed": 0,
        "step": options.step,
        "steps": setups.STEPS,
        "thorough": "--thorough" in options.options,
        "in_train_mode": setups.IN_TRAIN_MODE,
        "large": LARGE,
        "given_if_large": GIVEN_IF_LARGE,
        "answer": str(answer),
    }
    request.write_text(json.dumps(asked))
    command = [python.path, "-W", "ignore", "-m", "tools.bare", side, str(request)]
    variables = environment() | dict(python.variables)
    measured = measure(command, (folder,), said, variables)
    if not answer.is_file():
        last = "\n".join(said.read_text(errors="replace").strip().splitlines()[-LAST_LINES:])
        raise UserError(f"the bare passes of {side} failed (exit status {measured.status}): {last}")
    return measured.as_dict() | json.loads(answer.read_text())


# ---- what is printed ----------------------------------------------------------------------------


def as_text(found: dict) -> str:
    """The report for people; the ratio is its last line."""
    lines = [f"{found['pair']}, preset {found['preset']}, step {found['step']}"]
    check, bare = found.get("check"), found.get("bare")
    if check:
        said = check["error"] or f"{check['verdict']}, {check['rows']:,} rows"
        lines += ["the check", f"  exit status {check['status']}: {said}", *_cost(check)]
    if bare:
        for side, one in bare.items():
            lines += [f"{side} bare, {one['parameters']:,} parameters", *_cost(one, disk=False)]
            times = {part: f"{count} × " for part, count in one["passes"].items()}
            lines += [
                f"    {seconds:7.1f} s wall, {one['cpu_of'][part]:7.1f} s CPU  "
                f"{times.get(part, '')}{part}"
                for part, seconds in one["wall_of"].items()
            ]
    if check and bare:
        for words, left_out in (
            ("check / passes bare, without witnesses", (*WITHOUT_MODEL, WITNESS)),
            ("check / passes bare", WITHOUT_MODEL),
            ("check / passes bare with imports and building", ()),
        ):
            wall, cpu = (ratio(check, bare, kind, left_out) for kind in ("wall", "cpu"))
            lines.append(f"{words}: CPU {cpu:.2f}, wall {wall:.2f}")
    return "\n".join(lines)


def ratio(check: dict, bare: dict, kind: str, left_out: Sequence[str]) -> float:
    """Seconds of the check over those of both frameworks' bare runs, some parts left out.

    kind  "wall" or "cpu"
    """
    seconds = sum(
        seconds
        for one in bare.values()
        for part, seconds in one[f"{kind}_of"].items()
        if not part.startswith(tuple(left_out))
    )
    return check[f"{kind}_s"] / seconds


def _cost(one: dict, disk: bool = True) -> list[str]:
    """Lines on what a command cost."""
    memory = {name: f"{value / GIGA:.2f}" for name, value in one["memory"].items()}
    lines = [
        f"  wall    {one['wall_s']:9.1f} s",
        f"  CPU     {one['cpu_s']:9.1f} s, {one['processes']} processes at most",
        f"  memory  {memory['total']:>9} GB at its highest: {memory['own']} own, "
        f"{memory['files']} mapped files, {memory['shared']} shared",
    ]
    if disk:
        lines.append(
            f"  disk    {one['disk'] / MEGA:9.1f} MB at its highest, {one['disk_kept'] / MEGA:.1f} "
            f"kept; the disk's own count rose by {one['df'] / MEGA:.1f}"
        )
    if one["left_behind"]:
        lines.append(f"  {one['left_behind']} processes were left behind")
    return lines


if __name__ == "__main__":
    sys.exit(main())
