"""Set up a pair: of two models that are named, down to step 1's verdict; or an empty one.

    python -m common.new NAME --torch SPEC --paddle SPEC --input NAME=KIND:SHAPE[:LIMIT] …
    python -m common.new NAME

SPEC is package.module:Class or path/file.py:Class, or a function that builds.  Both are built and
run once, their weights and outputs are matched, and DIR/NAME (by default ./NAME) gets case.py,
torch_model.py and paddle_model.py, which import what was named.  Then step 1 runs, whose exit
status is this command's.

    python -m common.new resnet18 --torch torchvision.models:resnet18 \\
        --paddle paddle.vision.models:resnet18 --input x=float32:2,3,64,64 --set num_classes=10

`--paddle paconvert` has PaConvert translate the torch file or package: the translation goes to
DIR/NAME/translated.  With --update, it is made anew and your edits of it are kept.

    python -m common.new mine --torch mine.py:Net --paddle paconvert --input x=float32:2,16

KIND is float32, float64, int64 (below LIMIT), bool, mask (1 = keep, rows of unequal length) or
labels (below LIMIT, for the loss).  Without --torch and --paddle the three files are a pair that
runs at once, and five edits make it yours.  What is there already is never touched.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import argparse
import importlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from common.check.command_line import check
from common.check.flags import Parser
from common.check.guard import guarded
from common.check.options import CheckOptions
from common.pair.pairs import built_in_models
from common.pair.request import RunRequest
from common.report import terminal as report
from common.setup.described import describe
from common.setup.inputs import Input, parse_inputs
from common.setup.loss import choose_loss
from common.setup.merge import merge
from common.setup.outputs import match_outputs
from common.setup.own_files import linked, make_links, places_of
from common.setup.paconvert import Translation, find_paconvert, search_path, translate
from common.setup.remarks import remarks
from common.setup.spec import Arguments, Spec, parse_spec, read_arguments
from common.setup.thin import Plan, case_text, inputs_text, model_text
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.files import write_text
from common.system.frameworks import SIDES
from common.system.interpreters import interpreter
from common.system.json_file import load_json, write_json

TEMPLATE = ROOT / "common" / "pair" / "template"
FILES = ("case.py", "torch_model.py", "paddle_model.py")
TRANSLATED = "translated"  # a pair's folder for PaConvert's files
WRITTEN = ".pair.json"  # in it: the pair's files as they were written last
PACONVERT = "paconvert"  # in the place of --paddle's SPEC
TEMPLATE_NAME = "my_pair"  # what the template calls itself

EDITS = """Five edits, each marked by its number in the files:
  1  torch_model.py    put the PyTorch model in; build(config) returns it
  2  paddle_model.py   put the port in; names that differ go into RENAME in case.py
  3  case.py           CONFIGS and make_inputs: step 1 must pass now
  4  both models       loss(outputs, inputs): steps 3 and 4
  5  case.py           make_data, and metric and optimizer if you like: steps 2 and 5"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns step 1's exit status, 0 where nothing ran, 2 where nothing was made."""
    parser = Parser(__doc__, "python -m common.new")
    parser.add_argument("name", metavar="NAME", help="of the folder, and of the model in the logs")
    several = {"action": "extend", "nargs": "+", "default": []}
    for side, said in zip(SIDES, ("the reference", "the port"), strict=True):
        parser.add_argument(
            f"--{side}", metavar="SPEC", help=f"{said}: --{side} package.module:Class"
        )
    parser.add_argument(
        "--input",
        metavar="NAME=KIND:SHAPE[:LIMIT]",
        help="those that forward and the loss take: --input input_ids=int64:2,12:50",
        **several,
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="both sides' arguments: --config config.json"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        help="further arguments of both: --set num_classes=10 dropout=0.0",
        **several,
    )
    for side in SIDES:
        parser.add_argument(
            f"--{side}-set",
            metavar="KEY=VALUE",
            help=f"of that side alone: --{side}-set dropout=0.0",
            **several,
        )
    for side in SIDES:
        parser.add_argument(
            f"--{side}-config",
            metavar="SPEC",
            help="the class that these make, where the model's own does not name it",
        )
    parser.take("seed", "torch-python", "paddle-python")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where to put it, by default here: --folder ~/pairs",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="with --paddle paconvert: translate again, into the pair that is there: --update",
    )
    parser.add_argument(
        "--paconvert-python",
        metavar="PATH",
        help="the Python that has PaConvert: --paconvert-python ~/paconvert/bin/python",
    )
    parser.add_argument("--no-check", action="store_true", help="do not run step 1: --no-check")
    given = parser.take("debug").parse_args(arguments)
    return guarded(given.debug, lambda: _new(given))


def _new(given: argparse.Namespace) -> int:
    if given.torch or given.paddle:
        return _of_two(given)
    idle = [f"--{name}" for name, _ in given.typed if name not in ("folder", "debug")]
    if idle:
        raise UserError(f"{', '.join(idle)}: of use with --torch and --paddle alone")
    made = lay_out(given.name, given.folder)
    model = shlex.quote(str(made))
    print(f"made {made}: {', '.join(FILES)}")
    print(EDITS)
    print("It runs as it is:")
    for number, title in enumerate(("forward", "metric", "loss", "backward", "train"), 1):
        print(f"  python step{number}_{title}/check_step{number}.py --model {model}")
    return 0


def _of_two(given: argparse.Namespace) -> int:
    """Set up a pair of two models; returns the exit status of its check."""
    for side in SIDES:
        if not getattr(given, side):
            raise UserError(f"--{side} is missing: name the model of both sides")
    translates = given.paddle == PACONVERT
    if not translates and (given.update or given.paconvert_python):
        option = "--update" if given.update else "--paconvert-python"
        raise UserError(f"{option}: of use with --paddle {PACONVERT} alone")
    specs = {s: parse_spec(f"--{s}", getattr(given, s)) for s in SIDES[: 1 if translates else 2]}
    configs = {}
    for side in SIDES:
        text = getattr(given, f"{side}_config")
        configs[side] = parse_spec(f"--{side}-config", text) if text else None
    inputs = parse_inputs(given.input)
    if not inputs:
        raise UserError("--input is missing: what forward takes, such as x=float32:2,3,64,64")
    words = {"": given.set, "torch": given.torch_set, "paddle": given.paddle_set}
    asked = read_arguments(given.config, words)
    target = _free_place(given.name, given.folder, given.update)
    chosen = {side: getattr(given, f"{side}_python") for side in SIDES}
    pythons = {side: interpreter(side, chosen[side]) for side in SIDES}
    translation = None
    if translates:
        translation = _translated(specs["torch"], target, given, pythons["torch"])
        specs["paddle"] = translation.spec
    try:
        plan = _planned(given.name, specs, configs, asked, inputs, pythons, given.seed)
    except UserError as error:
        raise UserError(translation.explained(str(error)) if translation else str(error)) from None
    with _made_whole(target, adds=translates) as work:
        for side in SIDES:
            if not specs[side].first:
                place = plan.places[side]
                make_links(linked(specs[side]), work / place, target / place)
        texts = _texts(plan)
        if translation:
            texts = _kept(texts, translation)
        for file, text in texts.items():
            (work / file).write_text(text, encoding="utf-8")
    report.say(f"made {target}: {', '.join(FILES)}")
    for line in remarks(plan):
        report.say(f"  {line}")
    if given.no_check:
        model = shlex.quote(str(target))
        report.say(f"  python step1_forward/check_step1.py --model {model}{_options(chosen)}")
        return 0
    return _check(target, given, chosen)


def _planned(
    name: str,
    specs: Mapping[str, Spec],
    configs: Mapping[str, Spec | None],
    asked: Arguments,
    inputs: Sequence[Input],
    pythons: Mapping[str, str],
    seed: int,
) -> Plan:
    """What the pair's files are to say."""
    arrays = _drawn(inputs, asked.shared, seed)
    with (
        tempfile.TemporaryDirectory(prefix="new-") as work,
        report.progress() as on_progress,
    ):
        sides = describe(
            specs, configs, asked, inputs, arrays, pythons, Path(work), seed, on_progress
        )
    matched = match_outputs(sides["torch"], sides["paddle"])
    loss = choose_loss(specs["torch"].name, inputs, matched.outputs)
    places = places_of({side: spec for side, spec in specs.items() if not spec.first})
    places |= {side: TRANSLATED for side, spec in specs.items() if spec.first}
    return Plan(name, asked.shared, asked.own, inputs, sides, matched, loss, places)


def _drawn(inputs: Sequence[Input], config: Mapping, seed: int) -> dict[str, np.ndarray]:
    """The inputs' values, drawn by the very text that case.py gets."""
    names: dict[str, object] = {"np": np}
    exec(inputs_text(None, inputs, config), names)
    return names["make_inputs"](config, seed)


def _translated(spec: Spec, target: Path, given: argparse.Namespace, python: str) -> Translation:
    """The torch model translated by PaConvert; what came of it is said."""
    paconvert = find_paconvert(given.paconvert_python)
    with report.progress() as on_progress:
        on_progress(f"PaConvert: {spec}")
        place = target / TRANSLATED
        translation = translate(spec, place, paconvert, search_path(python), given.update)
    report.say(
        f"translated by PaConvert: {', '.join(str(place / file) for file in translation.files)}"
    )
    if translation.kept:
        report.say(f"  your edits of {', '.join(translation.kept)} were kept")
    if translation.untranslated:
        report.say("  left in torch, which is an error where it is reached:")
    for one in translation.untranslated:
        report.say(f"    {one}")
    if translation.conflicts:
        raise UserError("; ".join(map(str, translation.conflicts)))
    return translation


def _kept(texts: Mapping[str, str], translation: Translation) -> Mapping[str, str]:
    """The pair's files with what the user has edited in them since they were made."""
    record, folder = translation.folder / WRITTEN, translation.folder.parent
    former = load_json(record) if record.exists() else {}
    there = {file: folder / file for file in FILES if (folder / file).exists()}
    yours = {file: path.read_text(encoding="utf-8") for file, path in there.items()}
    merged = merge(former, yours, texts, folder)
    write_json(record, texts)
    if merged.conflicts:
        for file in FILES:
            write_text(folder / file, merged.texts[file])
        raise UserError("; ".join(map(str, merged.conflicts)))
    return merged.texts


def _texts(plan: Plan) -> dict[str, str]:
    """The pair's files, with the names of weights that differ."""
    texts = {f"{side}_model.py": model_text(plan, side) for side in SIDES}
    rename, convert = _weights(plan)
    texts["case.py"] = case_text(plan, rename, convert)
    return texts


def _weights(plan: Plan) -> tuple[dict[str, str], str | None]:
    """RENAME and convert of the pair."""
    return {}, None


def _check(target: Path, given: argparse.Namespace, chosen: Mapping[str, str | None]) -> int:
    """Run step 1 of the pair; returns its exit status."""
    step = importlib.import_module("step1_forward.check_step1").STEP
    typed = [("model", ("--model", str(target)))]
    typed += [(f"{s}-python", (f"--{s}-python", p)) for s, p in chosen.items() if p]
    if given.seed:
        typed.append(("seed", ("--seed", str(given.seed))))
    options = CheckOptions(
        run=RunRequest(seed=given.seed, debug=given.debug),
        models=(str(target),),
        pythons=dict(chosen),
        typed=tuple(typed),
    )
    return check(step, options, None, [word for _, words in typed for word in words])


def _options(chosen: Mapping[str, str | None]) -> str:
    return "".join(f" --{s}-python {shlex.quote(p)}" for s, p in chosen.items() if p)


def lay_out(name: str, folder: Path) -> Path:
    """Write the template's files into folder/name, all or nothing; returns that path.

    Raises UserError for a name that no folder or log can have, and where something is there.
    """
    target = _free_place(name, folder)
    with _made_whole(target) as work:
        for file in FILES:
            text = (TEMPLATE / file).read_text(encoding="utf-8")
            (work / file).write_text(text.replace(TEMPLATE_NAME, name), encoding="utf-8")
    return target


def _free_place(name: str, folder: Path, update: bool = False) -> Path:
    """Where the pair goes; raises UserError for a name that it cannot have."""
    if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
        raise UserError(f"{name}: a pair's name has letters, digits, '_' and '-' only")
    if name[0] == "-" or name == "all" or name in built_in_models():
        known = ", ".join(built_in_models())
        raise UserError(f"{name}: this name is taken (all, {known}) or starts with '-'")
    target = folder / name
    if update:
        if not (target / TRANSLATED).is_dir():
            raise UserError(f"--update: there is no {target / TRANSLATED} yet: leave it out")
        return target
    if target.exists() or target.is_symlink():
        raise UserError(f"{target}: there already; take another name, or remove it yourself")
    return target


@contextmanager
def _made_whole(target: Path, adds: bool = False) -> Iterator[Path]:
    """A folder to write to, which then takes the target's name; nothing is left where it fails.

    adds   the target is there: what was written replaces what has the same name in it
    """
    work = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        yield work
        if adds:
            _move_into(work, target)
        else:
            work.chmod(0o777 & ~_umask())
            os.rename(work, target)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _move_into(folder: Path, target: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            (target / path.name).mkdir(exist_ok=True)
            _move_into(path, target / path.name)
        else:
            os.replace(path, target / path.name)


def _umask() -> int:
    """The permissions that new files go without; mkdtemp's own folder is closed to everybody."""
    value = os.umask(0)
    os.umask(value)
    return value


if __name__ == "__main__":
    sys.exit(main())
