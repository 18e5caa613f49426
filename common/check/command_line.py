"""The command line of every check: run both twins, judge their logs, show the verdicts.

`check_main` is what check_stepN.py calls; `run_step` does the work for one step.
"""

import argparse
import errno
import json
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from common.check.launches import Twins
from common.check.result import Result, judged, judged_in_place, shown
from common.check.steps import Step
from common.check.unfinished import Unfinished
from common.pair.case_hooks import data_preset
from common.pair.pairs import Pair, load_pairs
from common.report import terminal as report
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.files import fill_standard_streams, whole
from common.system.folders import put_in_place, remove_abandoned, working_folder
from common.system.frameworks import SIDES
from common.system.interpreters import interpreter
from common.system.signals import Stopped, stoppable
from common.transplant.operators import SMALLEST, chosen
from common.transplant.search import Search
from common.verdict.row import worst


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every check takes."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--model", action="append", metavar="NAME|FOLDER", help="built-in, folder, or all (default)"
    )
    options.add_argument("--preset", default="default", help="of the model's case.py")
    options.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    options.add_argument("--seed", type=_natural, default=0)
    options.add_argument("--weights", help="a checkpoint, trained-like or stirred")
    options.add_argument("--out", type=Path, help="write logs to DIR/STEP/MODEL instead")
    options.add_argument(
        "--train", action="store_true", help="steps 1, 3, 4 in train mode, dropout from the tape"
    )
    options.add_argument(
        "--transplant",
        metavar="OP,OP…|all|smallest",
        help="operators that torch computes on the Paddle side; smallest: search for the fewest",
    )
    options.add_argument(
        "--data", type=Path, metavar="PATH", help="steps 2 and 5: the file or folder to train on"
    )
    options.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="a SentencePiece model, for texts and step 2"
    )
    options.add_argument("--epochs", type=_positive, help="step 5: instead of the preset's number")
    options.add_argument("--steps", type=_positive, help="step 5: steps of the whole training")
    options.add_argument(
        "--seeds", type=_positive, default=1, help="step 5: trainings of each side, from N seeds on"
    )
    options.add_argument(
        "--resume", action="store_true", help="step 5: go on with a training that was stopped"
    )
    options.add_argument(
        "--checkpoint-every",
        type=_positive,
        metavar="STEPS",
        help="step 5: beside those after each epoch; by default one a minute",
    )
    options.add_argument(
        "--reuse", choices=("torch",), help="keep that side's logs while nothing they need changed"
    )
    options.add_argument(
        "--reference", type=Path, metavar="DIR", help="torch logs that somebody else sent"
    )
    options.add_argument("--compare-only", action="store_true", help="judge logs that are there")
    options.add_argument("--allow", action="append", choices=("precision",), default=[])
    options.add_argument("--torch-python", metavar="PATH", help="the Python that runs that side")
    options.add_argument("--paddle-python", metavar="PATH", help="likewise")
    options.add_argument("--json", type=Path, metavar="FILE", help="write every row as JSON")
    options.add_argument(
        "--no-report", action="store_true", help="leave out reprod_log's own report"
    )
    options.add_argument("--debug", action="store_true", help="show tracebacks")
    return options


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return int(text)


def check_main(step: Step, arguments: Sequence[str] | None = None) -> int:
    """One step for the models asked for; prints the table and returns the exit status."""
    doc = sys.modules["__main__"].__doc__ or ""
    options = parser(doc).parse_args(arguments)
    hint = "; --resume goes on with a training" if step.trains else ""
    return guarded(options, lambda: check(step, options), hint)


def guarded(options: argparse.Namespace, action, hint: str = "") -> int:
    """Run a command; whatever goes wrong is one sentence and exit status 2.

    hint    what to add where the user stopped it
    """
    fill_standard_streams()
    try:
        with stoppable():
            return action()
    except UserError as error:
        report.say_error(str(error))
    except KeyboardInterrupt as error:
        word = f" by {error}" if isinstance(error, Stopped) else ""
        report.say_error(
            f"stopped{word}: what was finished is in its place, all else is as it was before{hint}"
        )
    except BrokenPipeError:  # nobody reads on; nor may Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        report.say_error(f"{error.strerror or error}: {error.filename or _no_file(error)}")
    except Exception as error:
        if options.debug:
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        report.say_error(
            f"internal error at {frame.filename}:{frame.lineno}: {type(error).__name__}: {error}; "
            "--debug shows the traceback"
        )
    return 2


def _no_file(error: OSError) -> str:
    """What a system's error that names no file is about."""
    try:
        os.getcwd()
    except OSError:
        return "the folder that this was started in is gone; start it from another"
    if error.errno in (errno.ENOSPC, errno.EIO):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor at the end
        return "standard output"
    return "no file named"


def check(step: Step, options: argparse.Namespace) -> int:
    """Run or judge one step, show it and write --json; returns the exit status."""
    with report.progress() as on_progress:
        results = run_step(step, options, on_progress)
    report.show_step(step, results)
    if options.json:
        write_json(options.json, results)
    return overall_exit(results)


def overall_exit(results: Sequence[Result]) -> int:
    """The worst exit status of all results; nothing compared is 2."""
    return max((result.exit_code for result in results), default=2)


def write_json(path: Path, results: Sequence[Result], **more: object) -> None:
    """Write every row and what they come to as JSON, and what else is given; all or nothing."""
    first = next((r.first_diverged for r in results if r.first_diverged is not None), None)
    guides = [r.guide_passed for r in results if r.guide_passed is not None]
    reports = [r.reprod_log for r in results if r.reprod_log is not None]
    document = {
        "verdict": worst([r.verdict for r in results]),
        "exit_code": overall_exit(results),
        "guide_passed": all(guides) if guides else None,
        "reprod_log": all(reports) if reports else None,
        "first_diverged": first.key if first is not None else None,
        "answers": {r.model: r.answers for r in results if r.answers},
        "errors": {r.model: r.error for r in results if r.error},
        "rows": [row.as_json() for result in results for row in result.rows],
        **more,
    }
    write_text(path, json.dumps(document, indent=1, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write a file all or nothing; raises UserError where its folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary:
            temporary.write_text(text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def run_step(step: Step, options: argparse.Namespace, on_progress) -> list[Result]:
    """Run both sides of a step (unless --compare-only), judge, and put the logs in their place."""
    pairs = load_pairs(options.model or ["all"])
    base = (options.out.absolute() / step.name) if options.out else step.folder / "log"
    base = base / step.other  # itself, where there is no other
    alone = [name for name in ("compare_only", "reuse", "reference") if getattr(options, name)]
    _check_transplant(step, options)
    if len(alone) > 1:
        told = " and ".join(f"--{name.replace('_', '-')}" for name in alone)
        raise UserError(f"{told} exclude each other: give one of them")
    if options.compare_only:
        remove_abandoned(base)
        results = [judged_in_place(step, pair, base / pair.name, options) for pair in pairs]
        for result in results:
            result.folder = base / result.model
        return results
    for pair in pairs:
        pair.config(data_preset(pair, options.preset) if step.data else options.preset)
    _refuse_unnameable([ROOT, base, *(pair.folder for pair in pairs)])
    needed = [side for side in SIDES if side == "paddle" or not options.reference]
    pythons = {side: interpreter(side, getattr(options, f"{side}_python")) for side in needed}
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    with working_folder(base) as work, Unfinished(base, work, options.resume) as unfinished:
        twins = Twins(step, options, pythons, work, on_progress, unfinished)
        pairs = twins.bring_weights(pairs)
        for pair in pairs:
            if pair.name not in twins.errors and twins.make_data(pair):
                twins.bring_reference(pair, base / pair.name)
        errors = twins.run_all(pairs)
        results = []
        for pair in pairs:
            if pair.name in errors:
                sentence, text = errors[pair.name]
                kept = base / f"{pair.name}.error.txt"
                with suppress(UserError):  # the same full disk, as like as not
                    write_text(kept, text)
                    sentence += f" (in full: {shown(kept)})"
                results.append(Result(step, pair.name, error=sentence))
                continue
            result = judged(step, pair, work / pair.name, options, twins)
            result.folder = base / pair.name
            result.elapsed_s += twins.elapsed_s(pair.name)
            result.notes += twins.notes[pair.name]
            if options.transplant == SMALLEST and not result.error:
                result.notes += _search(twins, step, pair, result)
            results.append(result)
            if result.error:  # nothing was compared: the former result stays
                result.error = result.error.replace(shown(work / pair.name), "the new logs")
                continue
            put_in_place(work / pair.name, base / pair.name)
            unfinished.forget(pair)
            (base / f"{pair.name}.error.txt").unlink(missing_ok=True)
    return results


def _check_transplant(step: Step, options: argparse.Namespace) -> None:
    """Raise UserError for operators that are not known, or that this run cannot use."""
    if not options.transplant:
        return
    chosen(options.transplant)
    if options.compare_only:
        raise UserError("--transplant and --compare-only exclude each other: logs stay as they are")
    if options.transplant == SMALLEST and step.data:
        raise UserError("--transplant smallest: steps 1, 3 and 4 have this search")


def _search(twins: Twins, step: Step, pair: Pair, result: Result) -> list[str]:
    """What --transplant smallest finds; its trials are judged as the check's own run was."""
    quiet = argparse.Namespace(**(vars(twins.options) | {"no_report": True}))

    def judge(folder: Path) -> int:
        return judged(step, pair, folder, quiet, None).exit_code

    return Search(twins, step, pair, result.exit_code == 0, judge).notes()


def _refuse_unnameable(folders: Sequence[Path]) -> None:
    """Raise UserError for a path that is no UTF-8: Paddle's process finds no file under it."""
    for folder in folders:
        try:
            str(folder).encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{ascii(str(folder))}: Paddle needs a path that is UTF-8, under a UTF-8 locale: "
                "rename the folder, or set LC_ALL=C.UTF-8"
            ) from None
