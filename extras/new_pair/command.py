"""Set up a pair: of two models that are named, down to step 1's verdict; or an empty one.

    twincheck new NAME --torch SPEC --paddle SPEC --input NAME=KIND:SHAPE[:LIMIT] …
    twincheck new NAME

SPEC is package.module:Class or path/file.py:Class, or a function that builds.  Both are built and
run once, their weights and outputs are matched, and DIR/NAME (by default ./NAME) gets case.py,
torch_model.py and paddle_model.py, which import what was named.  Then step 1 runs, whose exit
status is this command's.

    twincheck new resnet18 --torch torchvision.models:resnet18 \\
        --paddle paddle.vision.models:resnet18 --input x=float32:2,3,64,64 --set num_classes=10

KIND is float32, float64, positive (from 0 to 1), sorted (the same, rising), int64 (below LIMIT),
bool, mask (1 = keep, rows of unequal length) or labels (below LIMIT, for the loss).  Without
--torch and --paddle the three files are a pair that runs at once, and five edits make it yours.
What is there already is never touched.
"""

import argparse
import importlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from twincheck.common.check.command_line import check_main
from twincheck.common.check.options import Parser
from twincheck.common.check.workers import Processes
from twincheck.common.pair.pairs import RECORD
from twincheck.common.report import terminal as report
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import interpreter
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import renamed
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.described import Asked
from twincheck.extras.new_pair.inputs import parse_inputs
from twincheck.extras.new_pair.own_files import replace_links
from twincheck.extras.new_pair.pair import COMPAT, PACONVERT, make_pair
from twincheck.extras.new_pair.record import read_record, words_of, write_pair
from twincheck.extras.new_pair.spec import Spec, parse_spec, read_arguments

TEMPLATE = Path(__file__).resolve().parent / "template"
FILES = ("case.py", "torch_model.py", "paddle_model.py")
TEMPLATE_NAME = "my_pair"  # what the template calls itself

EDITS = (
    ("torch_model.py", Kind.EDIT_TORCH_MODEL()),
    ("paddle_model.py", Kind.EDIT_PADDLE_MODEL()),
    ("case.py", Kind.EDIT_INPUTS()),
    (Kind.BOTH_MODELS(), Kind.EDIT_LOSS()),
    ("case.py", Kind.EDIT_DATA()),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns step 1's exit status, 0 where nothing ran, 2 where nothing was made."""
    parser = Parser(__doc__, "new")
    parser.add_argument("name", metavar="NAME", help=Kind.OPTION_NAME())
    several = {"action": "extend", "nargs": "+", "default": []}
    setting = several | {"metavar": "KEY=VALUE"}
    parser.add_argument("--torch", metavar="SPEC", help=Kind.OPTION_TORCH())
    parser.add_argument("--paddle", metavar="SPEC|paconvert|compat", help=Kind.OPTION_PADDLE())
    parser.add_argument(
        "--input", metavar="NAME=KIND:SHAPE[:LIMIT]", help=Kind.OPTION_INPUT(), **several
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help=Kind.OPTION_CONFIG())
    parser.add_argument("--set", help=Kind.OPTION_SET(), **setting)
    for side in SIDES:
        parser.add_argument(f"--{side}-set", help=Kind.OPTION_SET_OF_SIDE(side=side), **setting)
        parser.add_argument(f"--{side}-config", metavar="SPEC", help=Kind.OPTION_CONFIG_OF_SIDE())
    parser.add_argument("--loader", action="store_true", help=Kind.OPTION_LOADER())
    parser.add_argument("--paconvert-python", metavar="PATH", help=Kind.OPTION_PACONVERT_PYTHON())
    parser.take("seed", "torch-python", "paddle-python")
    parser.add_argument(
        "--folder", type=Path, default=Path(), metavar="DIR", help=Kind.OPTION_FOLDER()
    )
    parser.add_argument("--no-check", action="store_true", help=Kind.OPTION_NO_CHECK())
    parser.add_argument("--update", action="store_true", help=Kind.OPTION_UPDATE())
    parser.take("debug")
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: _new(given, parser))


def _new(given: argparse.Namespace, parser: Parser) -> int:
    if given.update:
        given = _as_recorded(given, parser)
    if given.torch or given.paddle:
        with Processes() as processes:
            return _of_two(given, processes)
    idle = [f"--{name}" for name, _ in given.typed if name not in ("folder", "debug")]
    if idle:
        raise UserError(Kind.OF_USE_WITH_MODELS(options=idle))
    made = lay_out(given.name, given.folder)
    report.say(Kind.MADE(folder=str(made), files=list(FILES)))
    report.say(Kind.FIVE_EDITS())
    for number, (file, what) in enumerate(EDITS, 1):
        report.say(Kind.EDIT(number=number, file=f"{in_language(file):17}", what=what))
    report.say(Kind.RUNS_AS_IT_IS())
    for number in range(1, 6):
        report.say(f"  {to_type(f'step{number}', made)}")
    return 0


def _as_recorded(given: argparse.Namespace, parser: Parser) -> argparse.Namespace:
    """The command that set the pair up, with what is typed now in its place or beside it."""
    record = read_record(given.folder / given.name)
    words = [f"--{side}-python={path}" for side, path in record.get("pythons", {}).items()]
    typed = [word for _, several in given.typed for word in several]
    told = parser.parse_args([given.name, *words, *record["words"], *typed])
    told.input = list({word.partition("=")[0]: word for word in told.input}.values())
    return told


def _of_two(given: argparse.Namespace, processes: Processes) -> int:
    """Set up a pair of two models; returns the exit status of its check."""
    asked = _asked(given)
    recorded = words_of(given)
    target = given.folder / given.name if given.update else _free_place(given.name, given.folder)
    former = read_record(target)["texts"] if given.update else None
    with _work_beside(target) as work, report.progress() as on_progress:
        made = make_pair(asked, work, target, given.update, on_progress, processes)
        if given.update:
            replace_links(work, target)
        where = target if given.update else work
        kept = write_pair(where, made.texts, recorded, asked.chosen, former)
        if not given.update:
            _put(work, target)
    made_so = Kind.SET_UP_AGAIN if given.update else Kind.MADE
    report.say(made_so(folder=str(target), files=[n for n in made.texts if "/" not in n]))
    for line in [*(Kind.FILE_KEPT(file=str(target / name)) for name in kept), *made.lines]:
        report.say(Kind.INDENTED(line=renamed(line, str(work), str(target))))
    if made.problem:
        folder = () if given.folder == Path() else ("--folder", given.folder)
        again = to_type("new", given.name, "--update", *folder)
        problem = renamed(made.problem, str(work), str(target))
        raise UserError(Kind.SET_UP_WITH(problem=problem, command=again))
    if given.no_check:
        report.say(f"  {to_type('step1', target)}")
        return 0
    words = ["--model", str(target), "--out", str(target / "log")]
    words += ["--seed", str(given.seed)] if given.seed else []
    words += ["--debug"] if given.debug else []
    forward = importlib.import_module("twincheck.step1_forward.step").STEP
    return check_main(forward, words, processes)


def _asked(given: argparse.Namespace) -> Asked:
    """Return what the command line asks for; raises UserError where that is not clear."""
    for side in SIDES:
        if not getattr(given, side):
            raise UserError(Kind.SIDE_MISSING(side=side))
    specs: dict[str, Spec | None] = {"torch": parse_spec("--torch", given.torch), "paddle": None}
    if given.paddle == COMPAT:
        specs["paddle"] = replace(specs["torch"], compat=True)
    elif given.paddle != PACONVERT:
        specs["paddle"] = parse_spec("--paddle", given.paddle)
        if given.paconvert_python:
            raise UserError(Kind.OF_USE_WITH_PACONVERT(word=PACONVERT))
    elif given.paddle_config:
        raise UserError(Kind.CONFIG_OF_TRANSLATION())
    texts = {side: getattr(given, f"{side}_config") for side in SIDES}
    configs = {s: parse_spec(f"--{s}-config", text) if text else None for s, text in texts.items()}
    inputs = parse_inputs(given.input)
    if not inputs:
        raise UserError(Kind.INPUT_MISSING())
    sets = {"": given.set, "torch": given.torch_set, "paddle": given.paddle_set}
    chosen = {side: getattr(given, f"{side}_python") for side in SIDES}
    return Asked(
        specs,
        configs,
        read_arguments(given.config, sets),
        inputs,
        chosen,
        {side: interpreter(side, chosen[side]) for side in SIDES},
        given.seed,
        given.loader,
        given.paconvert_python,
    )


def lay_out(name: str, folder: Path) -> Path:
    """Write the template's files into folder/name, all or nothing; returns that path.

    Raises UserError for a name that no folder or log can have, and where something is there.
    """
    target = _free_place(name, folder)
    with _work_beside(target) as work:
        for file in FILES:
            text = (TEMPLATE / file).read_text(encoding="utf-8")
            (work / file).write_text(text.replace(TEMPLATE_NAME, name), encoding="utf-8")
        _put(work, target)
    return target


def _free_place(name: str, folder: Path) -> Path:
    """Return the folder of the new pair; raises UserError for a name that it cannot have."""
    if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
        raise UserError(Kind.NAME_LETTERS(name=name))
    if name[0] == "-" or name == "all":
        raise UserError(Kind.NAME_TAKEN(name=name))
    target = folder / name
    if target.exists() or target.is_symlink():
        kind = Kind.PLACE_OF_PAIR if (target / RECORD).is_file() else Kind.PLACE_TAKEN
        raise UserError(kind(place=str(target)))
    return target


@contextmanager
def _work_beside(target: Path) -> Iterator[Path]:
    """A folder beside the target to write to, removed at the end; it may be renamed before."""
    work = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        work.mkdir(parents=True)
        yield work
    except OSError as error:
        said = {"place": str(target), "error": str(error.strerror)}
        raise UserError(Kind.PLACE_NOT_WRITTEN(**said)) from None
    except UserError as error:  # nobody knows the folder that it happened in
        raise UserError(renamed(str(error), str(work), str(target))) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put(work: Path, target: Path) -> None:
    """Give a finished folder its name."""
    for cache in work.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)
    os.rename(work, target)
